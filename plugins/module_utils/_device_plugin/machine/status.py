# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's status of its devices: ``gpu-plugin status``, at the kubelet's socket."""

from __future__ import annotations

import typing as t

from ..._base.boot import PROGRAM
from ..._base.text.json_data import table_in
from ..._machine.host import Completed, Host
from ..._node.users.allocated import ROOTS, SOCKET
from ..instance_lock import LOCK, is_pod

STATUS = "/run/gpu-node/status.json"
PATIENCE = 60.0  # seconds for the daemon's answer: a driver that hangs must not hang the play


def command(host: Host) -> t.List[str]:
    """Return the command, with the kubelet's socket if there is one."""
    sockets = [f"{root}/{SOCKET}" for root in ROOTS if host.exists(f"{root}/{SOCKET}")]
    return [PROGRAM, "status", "--json", *(f"--pod-resources={socket}" for socket in sockets[:1])]


def ask(host: Host) -> Completed:
    """Run the command; its status is 3 if the daemon does not run, 124 if there was no answer in time."""
    return host.run(command(host), check=False, timeout=PATIENCE)


def read_status(host: Host, service: t.Mapping[str, str]) -> t.Dict[str, t.Any]:
    """Return the daemon's status file, empty if it is not of the process in the properties of its unit."""
    status = table_in(host.read(STATUS))
    return status if str(status.get("pid")) == service.get("MainPID") else {}


def pod(host: Host) -> str:
    """Return the description of the pod that serves, empty if none does."""
    if host.lock_holder(LOCK) is None:
        return ""
    text = host.read(LOCK) or ""
    return text if is_pod(text) else ""
