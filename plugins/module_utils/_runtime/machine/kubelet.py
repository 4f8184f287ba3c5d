# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which runtime the kubelet of a node uses, and what the two pass on of a device plugin's answers.

The runtime is that of the endpoint of its command line, or of its configuration.
"""

from __future__ import annotations

import re
import typing as t

from ..._base.dra.versions import Version, parse
from ..._base.errors import InputError
from ..._base.kubelet import allocate
from ..._base.visible_devices import strategies
from ..._machine.host import Host
from ..containerd import CONTAINERD
from ..start_command import Flag
from ..state import CRIO, DOCKER, RuntimeKind, RuntimeStart
from . import start_commands
from .engine import Runtime

KUBELET = RuntimeKind(
    "kubelet", "kubelet", ("kubelet.service",), "", (), start=RuntimeStart(Flag(("config",)))
)
ENDPOINT = Flag(("container-runtime-endpoint",))
PROGRAMS = {
    allocate.KUBELET: "kubelet",
    "containerd": "containerd",
    "cri-o": "crio",
    "cri-dockerd": "cri-dockerd",
}
SOCKETS = {kind.socket: kind.name for kind in (CONTAINERD, CRIO)}
SOCKETS[DOCKER.socket] = "cri-dockerd"
# A key at the top level of its configuration, which is YAML or JSON.
KEY = re.compile(r"(?m)^(?:\s*\")?containerRuntimeEndpoint\"?:\s*[\"']?([^\s\"',#]+)")


def endpoint(host: Host) -> str:
    """Return where the kubelet reaches its runtime, empty if that is not known."""
    command = start_commands.read(host, KUBELET.units[0], KUBELET).running
    path = command.value(KUBELET.start.file)
    match = KEY.search((host.read(path) or "") if path else "")
    return command.value(ENDPOINT) or (match[1] if match else "")


def unknown_runtime(host: Host, runtimes: t.Iterable[Runtime]) -> t.Tuple[str, ...]:
    """Return the warning about a kubelet that uses none of these runtimes."""
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
    """Return what ``kubelet --version`` prints, empty if the kubelet is not a program of its own."""
    if not host.which("kubelet"):
        return ""
    return host.run(["kubelet", "--version"], check=False).out


def refuse_strategies(host: Host, configs: t.Mapping[str, t.Any]) -> t.List[InputError]:
    """Return the errors of configurations of the device plugin, by variable, of which no answer reaches a container.

    Programs are asked for their versions only if the answers of a configuration depend on them.
    """
    present = _present(host)
    chosen = {variable: strategies(config) for variable, config in configs.items()}
    depending = [name for name in chosen if allocate.depend_on(chosen[name], present)]
    versions = _versions(host, present) if depending else {}
    errors = (allocate.refusal(name, chosen[name], versions) for name in depending)
    return [error for error in errors if error]


def runtime_version(host: Host) -> t.Dict[str, Version]:
    """Return the release of the runtime that the kubelet uses, by its name. Empty if it does not say it."""
    return _versions(host, _present(host) - {allocate.KUBELET})


def _present(host: Host) -> t.Set[str]:
    return {name for name, program in PROGRAMS.items() if host.which(program)}


def _versions(host: Host, names: t.Iterable[str]) -> t.Dict[str, Version]:
    """Return the releases of those programs that the kubelet is or uses, as far as they say them."""
    used = {allocate.KUBELET, SOCKETS.get(_plain(endpoint(host)), "")}
    versions = {}
    for name in sorted(used.intersection(names)):
        answer = host.run([PROGRAMS[name], "--version"], check=False)
        version = parse(f"{answer.out}\n{answer.err}")
        if version:
            versions[name] = version
    return versions
