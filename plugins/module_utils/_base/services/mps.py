# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The unit of MPS daemons: who still uses one of them, and the steps to an end of all."""

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
    """A device's MPS daemon. ``terminate``: its clients are ended where it has to end."""

    device: str
    clients: int = 0
    terminate: bool = False


def file(device: str) -> str:
    """Return where a device's settings are."""
    return f"{FOLDER}/{device}{SETTINGS}"


def devices(names: t.Iterable[str]) -> t.List[str]:
    """Return the devices that have such a file, from what is in their folder."""
    return sorted(name[: -len(SETTINGS)] for name in names if name.endswith(SETTINGS))


def left(manager: t.Optional[str]) -> t.Dict[str, str]:
    """Return the devices that the manager has, with the folders of their states, from its own state."""
    pairs = table(table_in(manager).get("devices")).items()
    return {device: root for device, root in pairs if isinstance(root, str) and "/" not in device}


def state_file(device: str, settings: t.Optional[str], root: str = "") -> str:
    """Return where the manager writes a device's state: the root that it says, or that of the settings."""
    return f"{root or text(table_in(settings).get('root')) or FOLDER}/{device}.json"


def daemon(device: str, settings: t.Optional[str], state: t.Optional[str]) -> Daemon:
    """Return a daemon, from its settings and the state that its manager wrote."""
    state_table = table_in(state)
    try:
        clients = int(state_table.get("clients", 0))
    except (ValueError, TypeError, OverflowError):
        clients = 0
    known = table_in(settings) or table(
        state_table.get("settings")
    )  # what runs, where no more is wanted
    return Daemon(device, clients, known.get("on_busy") == "terminate")


def idle_servers(states: t.Iterable[t.Optional[str]]) -> t.Dict[int, str]:
    """Return by process the servers without clients that managers report, with their pipe folders."""
    result: t.Dict[int, str] = {}
    for status in states:
        try:
            state = json_data.loads(status or "{}")
            pipe = str(state.get("pipe", ""))
            result.update(
                {
                    int(server["pid"]): pipe
                    for server in state.get("servers", ())
                    if not server["clients"]
                }
            )
        except json_data.MISREAD:
            continue  # not the state of a manager of ours
    return result


def end(daemons: t.Sequence[Daemon]) -> t.List[Step]:
    """Return what ends all daemons. NodeError: one has clients, and nobody said to end them."""
    busy = [
        control_daemon
        for control_daemon in daemons
        if control_daemon.clients and not control_daemon.terminate
    ]
    if busy:
        used = ", ".join(
            f"{control_daemon.device} ({control_daemon.clients})" for control_daemon in busy
        )
        hint = "end their pods first, or set onBusy: terminate in sharing.mps"
        refusal = "devices that are shared by MPS are in use"
        raise NodeError(refusal, cause=f"clients of {used}", hint=hint)
    if not daemons:
        return []
    return [Step("stop_mps", f"stop the MPS control daemons of {names(daemons)}")]


def names(daemons: t.Sequence[Daemon]) -> str:
    """Return which devices these are of."""
    return ", ".join(control_daemon.device for control_daemon in daemons)
