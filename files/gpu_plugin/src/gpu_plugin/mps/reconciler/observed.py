# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the managers of MPS daemons have told, read again only where it changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import bounded
from ..._shared._core.errors import NodeError
from ..._shared._core.text import json_data
from ...state import alive, started
from .. import kept
from ..paths import Names, older_file, settings_file
from ..settings import Settings, from_json
from .verdict import Seen

Stamp = tuple[int, int]


class Eyes:
    """Looks at managers. ``folder`` has the files with their settings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[Stamp, Any]] = {}

    def look(self, device: str, root: str) -> Seen:
        """Return what is seen of a device's manager; ``root`` is where it would be started now."""
        settings, strange = self._settings(device, root)
        place = Names(device, settings.root if settings else root)
        state: Mapping[str, Any] | None = self._read(Path(place.status), _state)
        if state is None:
            return Seen(settings, None, alive=False, serving=False, strange=strange)
        return Seen(settings, state, alive(state), bool(started(state["daemon"])), strange)

    def settings(self, device: str) -> Path:
        """Return the file with the settings of a device's manager."""
        return Path(settings_file(device, str(self._folder)))

    def older(self, device: str) -> Path:
        """Return the file that older releases had for it."""
        return Path(older_file(device, str(self._folder)))

    def devices(self, root: str) -> set[str]:
        """Return the devices that have a manager, or had one."""
        return kept.devices(self._folder) | {path.stem for path in Path(root).glob("*-*.json")}

    def _settings(self, device: str, root: str) -> tuple[Settings | None, bool]:
        """Return a manager's settings, and whether they are another release's."""
        if older := self._read(self.older(device), kept.older):
            return older, True
        path = self.settings(device)
        if found := self._read(path, from_json):
            return found, False
        return (Settings(1, root=root), True) if path.exists() else (None, False)

    def _read(self, path: Path, parse: Any) -> Any:
        try:
            stat = path.stat()
            stamp = (stat.st_ino, stat.st_mtime_ns)
            known = self._known.get(path)
            if known is None or known[0] != stamp:
                self._known[path] = known = (stamp, parse(bounded.read_text(path)))
        except (NodeError, OSError, ValueError):
            self._known.pop(path, None)
            return None
        return known[1]


def _state(text: str) -> Mapping[str, Any]:
    """Return the state that a manager told. ValueError: it is none."""
    state = json_data.loads(text)
    pids = [state.get(key) for key in ("pid", "daemon")] if isinstance(state, dict) else [""]
    if not all(isinstance(pid, int) for pid in pids):
        raise ValueError("it names no processes")
    found: Mapping[str, Any] = state
    return found
