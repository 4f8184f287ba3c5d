# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files of variables, as systemd's EnvironmentFile reads them."""

from __future__ import annotations

import re
import typing as t

from ..errors import InputError


def parse(text: t.Optional[str]) -> t.Dict[str, str]:
    """Return the variables of a file, none where there is none."""
    lines = (text or "").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    return {
        name: re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] == '"' else value
        for name, value in pairs
    }


def line(name: str, value: str) -> str:
    """Return the line of a variable. InputError: its value has several."""
    if any(ord(char) < 32 for char in value):
        raise InputError.of(f"labels: {name}", value, "a text of one line")
    return f'{name}="' + re.sub(r'([\\"$`])', r"\\\1", value) + '"\n'
