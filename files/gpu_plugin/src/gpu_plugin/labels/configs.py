# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The folder of configurations, and the link that the device plugin follows to one of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import logs
from .._shared._core.errors import NodeError
from ..config import configuration as config
from ..config import flags
from .choice import choose

NOTHING = "/dev/null"


@dataclass(frozen=True)
class Configs:
    """``source`` has the configurations, ``link`` is what the plugin reads."""

    source: Path
    link: Path
    default: str = ""
    strategies: Sequence[str] = ("named", "single")

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
