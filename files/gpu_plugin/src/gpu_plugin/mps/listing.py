# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The MPS daemons of a node, from the files in which their managers tell their states."""

from __future__ import annotations

from dataclasses import asdict
from numbers import Number
from pathlib import Path
from typing import Any, Final

from .. import bounded, status
from .._shared._core.text import json_data
from .clients import Client, look
from .kept import ENDINGS

SHAPE: Final[dict[str, type]] = {
    **dict.fromkeys(("device", "state", "since", "problem"), str),
    **dict.fromkeys(("replicas", "restarts", "clients"), int),
    "servers": list,
    "limits": dict,
}


def load(root: Path) -> list[dict[str, Any]]:
    """Return the states by device. A manager that was killed can't tell; it is ``crashed``."""
    found = []
    for path in sorted(root.glob("*-*.json")):
        if path.name.endswith(ENDINGS):
            continue
        state = status.load(path)
        if state is None:
            try:
                state = json_data.loads(bounded.read_text(path))
                failed = state["state"] == "failed"
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if not failed:
                state |= {"state": "crashed", "problem": "its manager was killed"}
                state |= {"servers": [], "clients": 0}
        if _whole(state):
            found.append(state)
    return found


def _whole(state: Any) -> bool:
    """Tell whether a state has all that is read of it; if not, no manager of ours has written it."""
    if not all(isinstance(state.get(key), kind) for key, kind in SHAPE.items()):
        return False
    asked = state["limits"].get("asked")
    if not isinstance(asked, dict) or not all(isinstance(one, Number) for one in asked.values()):
        return False
    return (not asked or {"memory_mib", "threads"} <= set(asked)) and all(
        isinstance(one, dict) and _pids([one.get("pid")]) and _pids(one.get("clients"))
        for one in state["servers"]
    )


def _pids(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one, int) for one in found)


def named(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the states with ``who`` each client is, which takes a look at every process."""
    return [{**one, "servers": [_named(server) for server in one["servers"]]} for one in states]


def _named(server: dict[str, Any]) -> dict[str, Any]:
    return {**server, "who": [asdict(look(pid)) for pid in server["clients"]]}


def describe(states: list[dict[str, Any]]) -> str:
    """Return named() states in words."""
    lines = []
    for state in states:
        limits = state["limits"]["asked"]
        words = [f"{state['device']}: {state['state']} since {state['since']}"]
        if limits:
            words.append(
                f"{state['replicas']} shares of {limits['memory_mib']} MiB"
                f" and {limits['threads']:g}% of the threads"
            )
        if state.get("multi_user"):
            words.append("multi-user server")
        words.append(f"restarts: {state['restarts']}")
        lines.append(", ".join(words))
        if state["problem"]:
            lines.append(f"  problem: {state['problem']}")
        for server in state["servers"]:
            clients = ", ".join(str(Client(**one)) for one in server["who"]) or "none"
            lines.append(f"  server {server['pid']}, clients: {clients}")
    return "\n".join(lines)
