# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is written down of the modules' options: what our file had, and what loaded modules do not have of it yet."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.packages import package


@dataclasses.dataclass(frozen=True)
class Written(package.Record):
    """The part of the record that is about our modprobe file.

    Attributes:
        modprobe: Whether it, or what an initramfs has of it, must be removed.
        options: The options in it, as "name=value".
        pending: Options that have changed since the modules were loaded, as "load name=value" with the former value.
        initramfs: The marks of those that do not contain it.
    """

    modprobe: bool = False
    options: t.FrozenSet[str] = frozenset()
    pending: t.FrozenSet[str] = frozenset()
    initramfs: t.FrozenSet[str] = frozenset()

    def before_load(self, load: str) -> t.Dict[str, str]:
        """Return what the loaded modules were given of options that have changed since."""
        rows = (row.partition(" ") for row in self.pending)
        return as_options(option for row_load, _space, option in rows if row_load == load)


def as_options(texts: t.Iterable[str]) -> t.Dict[str, str]:
    """Return options by their names, each given as "name=value"."""
    return {name: value for name, _is, value in (text.partition("=") for text in texts)}


def as_texts(options: t.Mapping[str, str]) -> t.FrozenSet[str]:
    """Return options as "name=value"."""
    return frozenset(f"{name}={value}" for name, value in options.items())
