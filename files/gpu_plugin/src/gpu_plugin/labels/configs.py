# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The folder of configurations, which of them a node is to have, and the link to it that the plugin follows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._shared._core.errors import InputError, NodeError
from ..config import configuration as config
from ..config import flags
from ..tools import logs

NOTHING: Final = "/dev/null"
LABEL: Final = "nvidia.com/device-plugin.config"
NAMED, SINGLE, EMPTY = "named", "single", "empty"
FALLBACKS: Final = (NAMED, SINGLE, EMPTY)
DEFAULT_NAME: Final = "default"


@dataclass(frozen=True)
class Configs:
    """``source`` has the configurations, ``link`` is what the plugin reads."""

    source: Path
    link: Path
    default: str = ""
    strategies: Sequence[str] = (NAMED, SINGLE)

    def names(self) -> list[str]:
        """Return the names of the configurations. NodeError: the folder can't be read."""
        try:
            found = sorted(self.source.iterdir())
        except OSError as error:
            raise NodeError(
                f"can't read {self.source}", cause=error.strerror or str(error)
            ) from error
        return [path.name for path in found if path.is_file() and not path.name.startswith(".")]

    def stamp(self) -> tuple[object, ...]:
        """Return something that differs after a change of the folder, its files, or the link."""
        found: list[object] = []
        paths = sorted(self.source.iterdir()) if self.source.is_dir() else []
        for path in paths:
            with contextlib.suppress(OSError):  # it went in between, which is a change as well
                stat = path.stat()
                found.append((path.name, stat.st_ino, stat.st_mtime_ns))
        with contextlib.suppress(OSError):
            found.append(os.readlink(self.link))
        return tuple(found)

    def follow(self, label: str) -> str:
        """Let the link lead to what a label asks for; return why it does not, or an empty text.

        What the plugin would refuse is not linked: the configuration before it stays in force.
        """
        try:
            name = choose(label, self.names(), self.default, self.strategies)
            target = NOTHING if name is None else os.fspath(self.source / name)
            if name is not None:
                text, _digest = flags.read(self.source / name)
                config.parse(text, target)
        except NodeError as error:
            return str(error)
        try:
            if self._switch(target):
                logs.info("configuration chosen", name=name or "(empty)", label=label or "(none)")
        except OSError as error:
            return f"can't write {self.link}: {error.strerror or error}"
        return ""

    def _switch(self, target: str) -> bool:
        if self.link.is_symlink() and os.readlink(self.link) == target:
            return False
        temporary = self.link.with_name(f".{self.link.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(self.link)
        return True


class NoChoice(NodeError):
    """No configuration can be chosen."""


def fallbacks(where: str, text: str) -> tuple[str, ...]:
    """Return the strategies of a list with commas. InputError: one is unknown."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for one in found:
        if one not in FALLBACKS:
            raise InputError.of(where, one, f"one of {', '.join(FALLBACKS)}")
    return found


def choose(
    label: str, names: Collection[str], default: str, strategies: Sequence[str]
) -> str | None:
    """Return the name of the configuration, as NVIDIA's config-manager does; None is an empty one.

    The label's comes first, then the default, then what the strategies find, in their order. NoChoice:
    there is none.
    """
    known = ", ".join(sorted(names)) or "none"
    for name, whose in ((label, "the node's label"), (default, "the default")):
        if name and name in names:
            return name
        if name:
            raise NoChoice(
                f"there is no configuration {name!r}, which {whose} names",
                cause=f"there are {known}",
            )
    for one in strategies:
        if one == NAMED and DEFAULT_NAME in names:
            return DEFAULT_NAME
        if one == SINGLE and len(names) == 1:
            return next(iter(names))
        if one == EMPTY:
            return None
    raise NoChoice(
        "no configuration is chosen",
        cause=f"the node has no label for it, there is no default, and there are {known}",
        hint=f"label the node, or name one of them {DEFAULT_NAME!r}",
    )
