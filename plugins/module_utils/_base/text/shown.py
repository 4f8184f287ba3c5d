# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Values and foreign texts for messages and terminals: short, and without control characters."""

from __future__ import annotations

import typing as t

LONGEST = 160
BRACKETS: t.Dict[type, t.Tuple[str, str]] = {dict: ("{", "}"), list: ("[", "]"), tuple: ("(", ")")}


def shown(value: t.Any, most: int = LONGEST) -> str:
    """Return ``repr(value)``, cut off if it is longer; the part that is cut off is not computed.

    A list can contain itself, or other lists many times, and the digits of a number can take long to compute.
    """
    text = ""
    for piece in _pieces(value, most):
        text += piece
        if len(text) > most:
            return f"{text[:most]}..."
    return text


def cut(text: str, most: int = LONGEST) -> str:
    """Return a text, cut off if it is longer."""
    return text if len(text) <= most else f"{text[:most]}..."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 warning", "2 warnings"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: str, keep: str = "") -> str:
    r"""Return ``text`` with all characters that Python does not count as printable escaped, as ``\x1b`` and ``\u202e``.

    These are control characters, line ends, changes of the writing direction, and halves of surrogate pairs, which may
    control a terminal. A tenant chooses the names of processes, and a node its answers. ``keep`` are characters that
    stay, such as the line end of a diff.
    """
    return "".join(
        character if character in keep or character.isprintable() else repr(character)[1:-1]
        for character in text
    )


def _pieces(value: t.Any, most: int) -> t.Iterator[str]:
    """Yield the pieces of ``repr(value)``, each with at least one character."""
    if isinstance(value, (str, bytes)):
        yield repr(value[: most + 1])
    elif isinstance(value, int) and value.bit_length() > 4 * most:
        yield f"a number of {value.bit_length()} bits"
    elif type(value) in BRACKETS:
        opening, closing = BRACKETS[type(value)]
        yield opening
        for number, item in enumerate(value):
            if number:
                yield ", "
            yield from _pieces(item, most)
            if isinstance(value, dict):
                yield ": "
                yield from _pieces(value[item], most)
        yield ",)" if isinstance(value, tuple) and len(value) == 1 else closing
    else:
        yield repr(value)
