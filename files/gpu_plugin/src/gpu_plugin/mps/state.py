# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The state of a device's MPS daemon, as its manager writes it and all others read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from numbers import Number
from pathlib import Path
from typing import Any, Final

from .. import state as files
from .clients import Client, look

STARTING, READY, FAILED, STOPPING = "starting", "ready", "failed", "stopping"
CRASHED: Final = "crashed"  # nobody writes it
KILLED: Final = {
    "state": CRASHED,
    "problem": "its manager was killed",
    "servers": [],
    "clients": 0,
}
NO_LIMITS: Final[Mapping[str, Any]] = {"asked": {}, "default": {}, "read_back": {}}
# ``pid`` and ``began``, which tell whether the manager lives, are added as the file is written.
EMPTY: Final[Mapping[str, Any]] = {
    "device": "",
    "state": "",
    "since": "",
    "daemon": 0,
    "pipe": "",
    "clients_pipe": "",
    "own_shm": False,
    "multi_user": False,
    "replicas": 0,
    "limits": NO_LIMITS,
    "servers": [],
    "clients": 0,
    "restarts": 0,
    "problem": "",
}


def read(path: Path) -> dict[str, Any] | None:
    """Return the state in a file; None: there is none, or no manager of ours has written it.

    Those of older releases run on after an upgrade: what they don't tell is as in EMPTY.
    """
    try:
        found = files.read(path, (None, files.VERSION))
    except files.StateUnusable:
        return None
    if not found or not found.keys() >= {"state", "pid"}:
        return None
    found = {**EMPTY, **found}
    if not all(isinstance(found[key], type(empty)) for key, empty in EMPTY.items()):
        return None
    found["limits"] = {**NO_LIMITS, **found["limits"]}
    return found if _whole(found["limits"], found["servers"]) and _pids([found["pid"]]) else None


def load(root: Path) -> list[dict[str, Any]]:
    """Return the states of a node's daemons, by device. Where a manager was killed it is CRASHED."""
    found = filter(None, map(read, sorted(root.glob("*-*.json"))))
    return [
        one if files.alive(one) or one["state"] == FAILED else {**one, **KILLED} for one in found
    ]


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
        if state["multi_user"]:
            words.append("multi-user server")
        words.append(f"restarts: {state['restarts']}")
        lines.append(", ".join(words))
        if state["problem"]:
            lines.append(f"  problem: {state['problem']}")
        for server in state["servers"]:
            clients = ", ".join(str(Client(**one)) for one in server["who"]) or "none"
            lines.append(f"  server {server['pid']}, clients: {clients}")
    return "\n".join(lines)


def _whole(limits: Mapping[str, Any], servers: list[Any]) -> bool:
    asked = limits["asked"]
    if not isinstance(asked, dict) or not all(isinstance(one, Number) for one in asked.values()):
        return False
    return (not asked or {"memory_mib", "threads"} <= asked.keys()) and all(
        isinstance(one, dict) and _pids([one.get("pid")]) and _pids(one.get("clients"))
        for one in servers
    )


def _pids(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one, int) for one in found)
