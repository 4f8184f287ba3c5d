# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The address of a package index, and the password in it."""

from __future__ import annotations

import re
import typing as t
from urllib.parse import unquote, urlsplit

from ..errors import InputError

SCHEMES = ("https", "http", "file")
MASK = "****"


def masked(text: str, url: str) -> str:
    """Return a text without the password that an address has; a user without a password is a token."""
    user, found, password = _userinfo(url).partition(":")
    secret = password if found else user
    for word in sorted({_userinfo(url), secret, unquote(secret)}, key=len, reverse=True):
        if word:
            text = text.replace(word, MASK)
    return text


def checked(url: t.Optional[str]) -> t.Optional[str]:
    """Return an address that pip can use; what is refused is named without its password."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
        good = parts.scheme in SCHEMES and bool(parts.hostname or parts.scheme == "file")
        good = good and parts.port != 0
    except ValueError:
        good = False
    if not good or re.search(r"[\s\x00-\x1f\x7f]", url):
        shown = re.sub(r"^.*@", f"{MASK}@", url, flags=re.DOTALL)
        raise InputError.of("index_url", shown, "a URL such as https://host/simple")
    return url


def _userinfo(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[0]
