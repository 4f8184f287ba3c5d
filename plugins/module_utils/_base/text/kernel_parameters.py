# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Parameters of the kernel and its modules, as next_arg() in the kernel's lib/cmdline.c parses them.

They are in /proc/cmdline, and in ``options`` lines of modprobe.d, after the module's name.
"""

from __future__ import annotations

import typing as t


class Parameter(t.NamedTuple):
    """A parameter; its ``name`` has underscores instead of dashes, as in the kernel. ``value`` is None without "="."""

    name: str
    value: t.Optional[str] = None


def split(text: str) -> t.Tuple[str, ...]:
    """Return the parameters of a text as they are written. Blanks between double quotes are part of a parameter."""
    written: t.List[str] = []
    start, quoted = -1, False
    for at, letter in enumerate(f"{text} "):
        if letter.isspace() and (not quoted or at == len(text)):
            written += [text[start:at]] if start >= 0 else []
            start = -1
            continue
        start = at if start < 0 else start
        quoted ^= letter == '"'
    return tuple(written)


def parameter(written: str) -> Parameter:
    """Return a parameter from its text, without the quotes around all of it or around its value."""
    text = written
    if text.startswith('"'):
        text = text[1:-1] if text.endswith('"') else text[1:]
    name, equals, value = text.partition("=")
    if value.startswith('"'):
        value = value[1:-1] if value.endswith('"') else value[1:]
    return Parameter(name.replace("-", "_"), value if equals else None)


def parse(text: str) -> t.Tuple[Parameter, ...]:
    """Return the parameters of a command line, or of the text after the module's name in an ``options`` line."""
    return tuple(map(parameter, split(text)))


def write(name: str, value: str) -> str:
    """Return a parameter as the kernel reads it; a value with blanks is quoted.

    Raises:
        ValueError: if the value has a double quote.
    """
    if '"' in value:
        raise ValueError(f"the kernel can't read a double quote in a value: {value}")
    return f'{name}="{value}"' if any(map(str.isspace, value)) else f"{name}={value}"
