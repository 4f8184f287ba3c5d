# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's state in a file that everybody may read."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, Final

from . import bounded, files
from ._shared._core.text import json_data

DEFAULT_FILE: Final = "/run/gpu-node/status.json"
LABELS_FILE: Final = "/run/gpu-node/labels.json"  # of the process that labels the node


class StatusFile:
    """Writes the state when it changed, in one step."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: dict[str, Any] = {}

    def write(self, state: dict[str, Any]) -> bool:
        """Write the state, which must not change any more. Returns whether it was another one."""
        if state == self._last:
            return False
        files.replace(self._path, json.dumps(state, indent=2, sort_keys=True) + "\n")
        self._last = state
        return True

    def still_true(self) -> None:
        """Let the file's time tell that the process goes on, also while nothing changes."""
        with contextlib.suppress(OSError):
            os.utime(self._path)

    def remove(self) -> None:
        """Remove the file: the daemon ends."""
        self._path.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any] | None:
    """Return the state of the running process that wrote it; None when none runs."""
    try:
        state: dict[str, Any] = json_data.loads(bounded.read_text(path))
        os.kill(int(state["pid"]), 0)
    except PermissionError:
        return state  # somebody else's process, but a living one
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return state


def age(path: Path) -> float:
    """Return how long ago the process said that the state is still true, in seconds. OSError."""
    return max(time.time() - path.stat().st_mtime, 0.0)


def mig_boot(path: Path) -> dict[str, Any] | None:
    """Return how making the MIG layout went at boot; None where it was not tried."""
    try:
        state: dict[str, Any] = json_data.loads(bounded.read_text(path))
    except (OSError, ValueError):
        return None
    return state


def describe(state: dict[str, Any]) -> str:
    """Return the state in words."""
    lines = [
        f"gpu-plugin {state['version']} (process {state['pid']}): {state['state']}",
        f"driver: {state['driver_version'] or 'not there'}",
    ]
    if state.get("problem"):
        lines.append(f"problem: {state['problem']}")
    if state.get("config_problem"):
        lines.append(f"configuration on disk refused: {state['config_problem']}")
    for name, resource in state["resources"].items():
        health = list(resource["devices"].values())
        registered = "registered" if resource["registered"] else "not registered with the kubelet"
        lines.append(f"{name}: {health.count('Healthy')} of {len(health)} healthy, {registered}")
    if labels := state.get("labels"):
        problem = f", {labels['problem']}" if labels["problem"] else ""
        lines.append(f"labels: {labels['state']} ({labels['output']}){problem}")
    if boot := state.get("mig_boot"):
        lines.append(f"MIG layout at boot: {'; '.join([boot['state'], *boot['problems']])}")
    if cdi := state.get("cdi"):
        stale = f", {len(cdi['missing'])} files are gone" if cdi["missing"] else ""
        lines.append(f"CDI specification: {len(cdi['devices'])} devices{stale}")
    return "\n".join(lines)


def describe_labels(labels: dict[str, Any]) -> str:
    """Return the labels as they are written for the cluster, one a line."""
    return "\n".join(f"{key}={text}" for key, text in sorted(labels["labels"].items()))
