# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the managers of MPS daemons have told, read again only where it changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import bounded
from ..._shared._core.text import json_data
from ..manager.control import started
from ..paths import Names, environment_file
from ..settings import ROOT_VARIABLE, read
from .verdict import Seen

Stamp = tuple[int, int]


class Eyes:
    """Looks at managers. ``folder`` has their environment files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[Stamp, Any]] = {}

    def look(self, device: str, root: str) -> Seen:
        """Return what is seen of a device's manager; ``root`` is where it would be started now."""
        text = self._read(self.settings(device), str)
        variables = None if text is None else read(text)
        place = Names(device, (variables or {}).get(ROOT_VARIABLE, root))
        state: Mapping[str, Any] | None = self._read(Path(place.status), _state)
        if state is None:
            return Seen(variables, None, alive=False, serving=False)
        began = state.get("began") or None
        alive = started(state["pid"]) == began if began else bool(started(state["pid"]))
        return Seen(variables, state, alive, bool(started(state["daemon"])))

    def settings(self, device: str) -> Path:
        """Return the environment file of a device's manager."""
        return Path(environment_file(device, str(self._folder)))

    def devices(self, root: str) -> set[str]:
        """Return the devices that have a manager, or had one."""
        found = {path.stem for path in self._folder.glob("*-*.env")}
        return found | {path.stem for path in Path(root).glob("*-*.json")}

    def _read(self, path: Path, parse: Any) -> Any:
        try:
            stat = path.stat()
            stamp = (stat.st_ino, stat.st_mtime_ns)
            known = self._known.get(path)
            if known is None or known[0] != stamp:
                self._known[path] = known = (stamp, parse(bounded.read_text(path)))
        except (OSError, ValueError):
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
