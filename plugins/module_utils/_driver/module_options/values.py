# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The values of a kernel module's options: what each kind of them takes, as the kernel reads it, and which are alike.

A module whose option has a value that the kernel can't read is not loaded at all.
"""

from __future__ import annotations

import re
import typing as t

MOST = (1 << 31) - 1
NUMBER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]+|0|[1-9][0-9]*)", re.ASCII)
# The kernel knows octal by its leading zero, YAML 1.2 and Python by 0o.
OCTAL = re.compile(r"0[oO]([0-7]+)", re.ASCII)
TEXT = re.compile(r"[A-Za-z0-9_.,:;=/+-]+(?: +[A-Za-z0-9_.,:;=/+-]+)*", re.ASCII)
WORDS = {
    "true": "1",
    "yes": "1",
    "on": "1",
    "y": "1",
    "false": "0",
    "no": "0",
    "off": "0",
    "n": "0",
}


class Kind(t.NamedTuple):
    """What an option takes: a number between ``low`` and ``high``, one of ``choices``, or a text of a form.

    ``expected`` says it to users.
    """

    expected: str
    low: int = 0
    high: int = MOST
    choices: t.Tuple[str, ...] = ()
    form: str = ""
    octal: bool = False

    def written(self, text: str) -> t.Optional[str]:
        """Return a value as it is written for the kernel, None if the option does not take it."""
        if self.choices:
            return text if text in self.choices else None
        if self.form:
            return text if re.fullmatch(self.form, text, re.ASCII) else None
        if (self.low, self.high) == (0, 1):
            text = WORDS.get(text.lower(), text)
        if self.octal:
            text = OCTAL.sub(r"0\1", text)
        plain = number(text)
        return text if plain is not None and self.low <= plain <= self.high else None


def number(text: str) -> t.Optional[int]:
    """Return a number as the kernel reads it: decimal, hexadecimal, or octal with a leading zero."""
    match = NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, digits = match[1], match[2]
    octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
    return int(f"{sign}{digits}", 8 if octal else 0)


def alike(value: str, other: str) -> bool:
    """Return whether two values are the same to a module, which shows numbers without a sign, and bools as Y and N."""
    return _plain(value) == _plain(other)


def _plain(text: str) -> t.Union[int, str]:
    plain = number(WORDS.get(text.lower(), text))
    return text if plain is None else plain & 0xFFFFFFFF


def numbers(low: int, high: int = MOST, unit: str = "") -> Kind:
    """Return the kind of whole numbers in a range."""
    upper = f" to {high}" if high != MOST else " or more"
    unit = f" {unit}" if unit else ""
    expected = f"a number of {low}{upper}{unit}" if low >= 0 or high != MOST else "a whole number"
    return Kind(expected, low, high)


def choice(*choices: str) -> Kind:
    """Return the kind of one of some words."""
    return Kind(f"one of {', '.join(choices)}", choices=choices)


def text(expected: str, form: str) -> Kind:
    """Return the kind of a text of a form, which is a regular expression."""
    return Kind(expected, form=form)


FLAG = Kind("0 or 1", 0, 1)
INTEGER = numbers(-MOST - 1)
MODE = Kind(
    "a mode of files in octal of 0777 at most, in quotes, such as '0660'", 0, 0o777, octal=True
)
MASK = Kind(f"a mask of bits of 0 to {MOST:#x}")
PATH = text("an absolute path", r"/[A-Za-z0-9_.,:+/-]*")
# The driver takes the blanks out of both, which NVIDIA's own texts have behind each semicolon.
_KEYS = r"\w+=(?:0x[0-9a-fA-F]+|\d+)(?:; *\w+=(?:0x[0-9a-fA-F]+|\d+))*;?"
DWORDS = text("keys with numbers, such as RMFoo=0x1;RMBar=2", _KEYS)
DWORDS_PER_DEVICE = text(
    "keys with numbers behind the address of a GPU, such as pci=0000:41:00.0;RMFoo=0x1",
    r"pci=[0-9a-fA-F:.]+(?:; *\w+=[0-9a-fA-Fx:.]+)+;?",
)
_UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
UUIDS = text(
    "whole UUIDs of GPUs with commas between them, such as GPU-0a1b2c3d-...",
    f"{_UUID}(?:,{_UUID})*",
)
ANY = text("a value of letters, digits, blanks, and any of _.,:;=/+-", TEXT.pattern)
