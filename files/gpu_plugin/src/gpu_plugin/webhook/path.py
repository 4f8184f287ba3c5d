# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The path of reviews, which nobody can guess: API servers are told it, so that others ask in vain.

It is made once, kept in a Secret that all replicas share, and written into the configuration. Few may
read either.
"""

from __future__ import annotations

import re
import secrets
from typing import Final
from urllib.parse import urlsplit

from .told import Json, Told, again, decoded

FIELD: Final = "path"
PATTERN: Final = re.compile("[A-Za-z0-9_-]{1,128}")
LETTERS: Final = 43  # of 256 bits


class Path:
    """Looks after the path whenever it is asked to."""

    def __init__(self, told: Told, secret: str) -> None:
        self._told, self._secret = told, secret

    def look(self) -> str:
        """Return the path, without a slash, once the API servers are told of it. NodeError: it is tried again."""
        return again(self._look)

    def _look(self) -> str:
        secret = self._told.secret(self._secret)
        path = decoded((secret.get("data") or {}).get(FIELD))
        if not PATTERN.fullmatch(path) or len(path) < LETTERS:
            path = secrets.token_urlsafe()
            self._told.write(secret, {FIELD: path}, {})
        self._told.tell(self._told.configuration(), lambda client: leading(client, path))
        return path


def leading(client: Json, path: str) -> Json:
    """Return a clientConfig that leads to a path, of its Service or of its address."""
    if "service" in client:
        return {**client, "service": {**client["service"], "path": f"/{path}"}}
    return {**client, "url": urlsplit(str(client.get("url")))._replace(path=f"/{path}").geturl()}
