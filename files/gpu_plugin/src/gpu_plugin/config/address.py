# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An address to listen on, as people write it. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from .strict_yaml import invalid

PORT: Final = re.compile("[0-9]{1,5}")
EXPECTED: Final = "ADDRESS:PORT such as 127.0.0.1:9402 or [::1]:9402, or off"


def address(where: str, text: str) -> tuple[str, int] | None:
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
        raise invalid(where, text, EXPECTED) from error
    good = bracketed == (version == 6) and PORT.fullmatch(port) and 1 <= int(port) <= 65535
    if not good:
        raise invalid(where, text, EXPECTED)
    return host, int(port)
