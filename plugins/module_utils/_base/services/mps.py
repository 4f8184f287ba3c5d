# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The unit of MPS daemons, their files, and the step that ends all of them."""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import NodeError
from ..steps import Step
from ..text import json_data
from ..text.json_data import table, table_in, text

UNIT = "gpu-mps.service"
FOLDER = "/run/gpu-node/mps"
SETTINGS = ".settings.json"
MANAGER = f"{FOLDER}/manager.json"
SERVER = "nvidia-cuda-mps-server"  # a program, which serves the clients of a user


@dataclasses.dataclass(frozen=True)
class Daemon:
    """A device's MPS daemon. ``terminate`` is whether its clients are ended if it has to end."""

    device: str
    clients: int = 0
    terminate: bool = False


def file(device: str) -> str:
    """Return the path of a device's settings."""
    return f"{FOLDER}/{device}{SETTINGS}"


def devices(names: t.Iterable[str]) -> t.List[str]:
    """Return the devices that have settings, from the names in their folder."""
    return sorted(name[: -len(SETTINGS)] for name in names if name.endswith(SETTINGS))


def left(manager: t.Optional[str]) -> t.Dict[str, str]:
    """Return the devices that the manager has, with the folders of their states, from its own state."""
    pairs = table(table_in(manager).get("devices")).items()
    return {device: root for device, root in pairs if isinstance(root, str) and "/" not in device}


def state_file(device: str, settings: t.Optional[str], root: str = "") -> str:
    """Return the path of a device's state, in the root of the manager's state, or that of the settings."""
    return f"{root or text(table_in(settings).get('root')) or FOLDER}/{device}.json"


def daemon(device: str, settings: t.Optional[str], state: t.Optional[str]) -> Daemon:
    """Return a daemon, from its settings and the state that its manager has written."""
    state_table = table_in(state)
    try:
        clients = int(state_table.get("clients", 0))
    except (ValueError, TypeError, OverflowError):
        clients = 0
    # The state has the settings of a daemon that runs although they were removed.
    known = table_in(settings) or table(state_table.get("settings"))
    return Daemon(device, clients, known.get("on_busy") == "terminate")


def idle_servers(states: t.Iterable[t.Optional[str]]) -> t.Dict[int, str]:
    """Return the servers without clients in the states of managers, by PID, with their pipe folders."""
    result: t.Dict[int, str] = {}
    for status in states:
        try:
            state = json_data.loads(status or "{}")
            pipe = str(state.get("pipe", ""))
            idle = [server for server in state.get("servers", ()) if not server["clients"]]
            result.update({int(server["pid"]): pipe for server in idle})
        except json_data.MISREAD:
            continue  # not the state of a manager of ours
    return result


def end(daemons: t.Sequence[Daemon]) -> t.List[Step]:
    """Return the step that ends all daemons.

    Raises:
        NodeError: if one has clients that must not be ended.
    """
    used = [
        f"{control_daemon.device} ({control_daemon.clients})"
        for control_daemon in daemons
        if control_daemon.clients and not control_daemon.terminate
    ]
    if used:
        hint = "end their pods first, or set onBusy: terminate in sharing.mps"
        refusal = "devices that are shared by MPS are in use"
        raise NodeError(refusal, cause=f"clients of {', '.join(used)}", hint=hint)
    if not daemons:
        return []
    return [Step("stop_mps", f"stop the MPS control daemons of {names(daemons)}")]


def names(daemons: t.Sequence[Daemon]) -> str:
    """Return the devices of daemons, separated by commas."""
    return ", ".join(control_daemon.device for control_daemon in daemons)
