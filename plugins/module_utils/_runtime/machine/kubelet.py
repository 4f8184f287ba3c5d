# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which runtime the kubelet of a node uses: the endpoint of its command line, or of its configuration."""

from __future__ import annotations

import re
import typing as t

from ..._machine.host import Host
from ..start_command import Flag
from ..state import Kind
from . import start_commands
from .engine import Runtime

KUBELET = Kind("kubelet", "kubelet", ("kubelet.service",), "", (), file_flag=Flag(("config",)))
ENDPOINT = Flag(("container-runtime-endpoint",))
# A key at the top level of its configuration, which is YAML or JSON.
KEY = re.compile(r"(?m)^(?:\s*\")?containerRuntimeEndpoint\"?:\s*[\"']?([^\s\"',#]+)")


def endpoint(host: Host) -> str:
    """Return where the kubelet reaches its runtime, empty where that is not known."""
    command = start_commands.read(host, KUBELET.units[0], KUBELET).running
    path = command.value(KUBELET.file_flag)
    match = KEY.search((host.read(path) or "") if path else "")
    return command.value(ENDPOINT) or (match[1] if match else "")


def unknown_runtime(host: Host, runtimes: t.Iterable[Runtime]) -> t.Tuple[str, ...]:
    """Warn of a kubelet that uses none of these runtimes."""
    address = endpoint(host)
    if not address:
        return ()
    sockets = {runtime.kind.name: _plain(runtime.socket()) for runtime in runtimes}
    if _plain(address) in sockets.values():
        return ()
    names = list(sockets)
    return (
        f"the kubelet uses {address}, which is the socket of none of {', '.join(names)}: its pods get no GPU by what "
        "is set up here. Next step: let the kubelet use one of them, or set container_runtime_name to its runtime",
    )


def _plain(address: str) -> str:
    path = address[len("unix://") :] if address.startswith("unix://") else address
    return path[len("/var") :] if path.startswith("/var/run/") else path


def printed_version(host: Host) -> str:
    """Return what ``kubelet --version`` prints, empty where the kubelet is not a program of its own."""
    if not host.which("kubelet"):
        return ""
    return host.run(["kubelet", "--version"], check=False).out
