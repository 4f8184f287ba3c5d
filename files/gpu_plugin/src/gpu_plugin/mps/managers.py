# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is on disk about the managers of MPS daemons: their settings, and the states that they write.

The file with a device's settings is there while the device is shared. Older releases wrote variables for
systemd instead. Of those is read what it takes to find a manager that has outlived its release, and to
end it as it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from .._shared._core.errors import NodeError
from ..tools import bounded
from ..tools.state import alive, started
from . import state
from .paths import ROOT, Names, older_file, problem_of_root, settings_file
from .settings import ON_BUSY, WAIT, Settings, from_json

ENDINGS: Final = (settings_file("", "")[1:], older_file("", "")[1:])


@dataclass(frozen=True)
class Observed:
    """A device's manager: the settings it was last started with, and the state that it reports.

    ``alive``: its process runs, ``serving``: that of its control daemon too. ``state`` is None where
    it reports none, or has removed it at its end. ``other_release``: another release wrote the settings, and
    what is known of them is where its files are and what is with its clients.
    """

    settings: Settings | None
    state: Mapping[str, Any] | None
    alive: bool
    serving: bool
    other_release: bool = False

    @property
    def pid(self) -> int:
        """The manager's process, 0 where none runs."""
        return int(self.state["pid"]) if self.alive and self.state else 0

    def suits(self, wanted: Settings) -> bool:
        """Tell whether it was started with these settings."""
        return self.settings is not None and not self.other_release and self.settings.suits(wanted)


class ManagerFiles:
    """Files are read again only where they changed. ``folder`` has those with the settings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[tuple[int, int], Any]] = {}

    def look(self, device: str, root: str) -> Observed:
        """Return what is known of a device's manager; ``root`` is where it would be started now."""
        settings, other_release = self.settings(device)
        if other_release and settings is None:
            settings = Settings(1, root=root)
        names = Names(device, settings.root if settings else root)
        current = self._read(Path(names.status), state.read)
        if current is None:
            return Observed(settings, None, alive=False, serving=False, other_release=other_release)
        return Observed(
            settings, current, alive(current), bool(started(current["daemon"])), other_release
        )

    def settings(self, device: str) -> tuple[Settings | None, bool]:
        """Return the settings of a device's manager, None where there are none that can be used.

        And whether there is a file that no manager of this release can have been started with.
        """
        if before := self._read(self.file(device, older_file), partial(_parsed, older)):
            return before, True
        path = self.file(device)
        found: Settings | None = self._read(path, partial(_parsed, from_json))
        return found, found is None and path.exists()

    def file(self, device: str, kind: Callable[[str, str], str] = settings_file) -> Path:
        """Return where the settings of a device's manager are, or were."""
        return Path(kind(device, str(self._folder)))

    def devices(self, root: str) -> set[str]:
        """Return the devices that have a manager, or had one."""
        return devices(self._folder) | {path.stem for path in Path(root).glob("*-*.json")}

    def _read(self, path: Path, read: Callable[[Path], Any]) -> Any:
        try:
            stat = path.stat()
        except OSError:
            self._known.pop(path, None)
            return None
        stamp = (stat.st_ino, stat.st_mtime_ns)
        known, value = self._known.get(path, (None, None))
        if known != stamp and (value := read(path)) is not None:
            self._known[path] = (stamp, value)
        return value


def devices(folder: Path) -> set[str]:
    """Return the devices that have a file of either kind."""
    return {
        path.name.removesuffix(ending) for ending in ENDINGS for path in folder.glob(f"*-*{ending}")
    }


def roots(folder: Path) -> list[Path]:
    """Return where managers have their files."""
    found = (ManagerFiles(folder).settings(device)[0] for device in devices(folder))
    return sorted({Path(ROOT), *(Path(one.root) for one in found if one)})


def load(path: Path) -> Settings:
    """Return the settings in a file. NodeError: they can't be had."""
    try:
        return from_json(bounded.read_text(path))
    except (NodeError, OSError, ValueError) as error:
        raise NodeError(
            f"the settings in {path} can't be used",
            cause=str(error),
            hint="the device plugin writes the file anew when it starts the manager",
        ) from error


def older(text: str) -> Settings:
    """Return of older settings where the manager's files are, and what is with its clients."""
    lines = (line for line in text.splitlines() if "=" in line and not line.startswith("#"))
    variables = dict(line.split("=", 1) for line in lines)
    root, on_busy = (variables.get(f"GPU_MPS_{name}", "") for name in ("ROOT", "ON_BUSY"))
    return Settings(
        1,
        on_busy=on_busy if on_busy in ON_BUSY else WAIT,
        root=ROOT if problem_of_root(root) else root,
    )


def _parsed(parse: Callable[[str], Settings], path: Path) -> Settings | None:
    try:
        return parse(bounded.read_text(path))
    except (NodeError, OSError, ValueError):
        return None
