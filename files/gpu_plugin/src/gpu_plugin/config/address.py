# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An address to listen on, as people write it. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from .._shared._core.text.shown import shown
from .strict_yaml import ConfigError

PORT: Final = re.compile("[0-9]{1,5}")
EXPECTED = "expected ADDRESS:PORT such as 127.0.0.1:9402 or [::1]:9402, or off"
Address = tuple[str, int]


def address(text: str, where: str) -> Address | None:
    """Return the IP address and the port; None for ``off``. ConfigError: ``where`` it is wrong.

    Names are not looked up: what they mean may change, and a look-up may take long.
    """
    if text == "off":
        return None
    host, _colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    try:
        version = ipaddress.ip_address(host).version
    except ValueError as error:
        raise _wrong(text, where) from error
    if bracketed != (version == 6) or not PORT.fullmatch(port):
        raise _wrong(text, where)
    if not 1 <= int(port) <= 65535:
        raise _wrong(text, where)
    return host, int(port)


def _wrong(text: str, where: str) -> ConfigError:
    return ConfigError(f"{where}: {shown(text)} is not valid", cause=EXPECTED)
