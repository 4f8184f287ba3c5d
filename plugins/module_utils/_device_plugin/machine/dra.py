# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The DRA driver's part of a deployment: its state, the holders of its devices, and its files."""

from __future__ import annotations

import contextlib
import posixpath
import time
import typing as t

from ..._base.dra import names
from ..._base.dra.allocation import NO_LIBRARY, Owners, owners_in, verify
from ..._base.errors import NodeError
from ..._base.gpu import NvmlError
from ..._base.text.json_data import table_in
from ..._machine.host import Host
from ..._machine.nvml.real import open_nvml
from ..._machine.units import systemctl
from ..._node.users import handover
from ..._node.users.allocated import Devices
from ..._node.users.machine import allocated
from ..registration import KUBELET
from ..state import CONFIG, DRA_SETTINGS, UNITS, DesiredPlugin, DraState, Service

CDI_FOLDER, CDI_PREFIX = "/run/cdi", names.CDI_KIND.replace("/", "-")
FILES = (f"{UNITS}/{names.UNIT}", DRA_SETTINGS)  # that a deployment writes
PAUSE = 0.2  # seconds
Ask = t.Callable[[str], Service]  # of a unit
LEFT = (
    names.STATUS,
    names.STATUS.rpartition(".")[0],  # a folder
    names.REGISTRATION,
    posixpath.dirname(names.SOCKET),
    posixpath.dirname(names.CHECKPOINT),
)


def is_deployed(host: Host) -> bool:
    """Return whether the driver's unit is there."""
    return host.exists(f"{UNITS}/{names.UNIT}")


def observe(host: Host, desired: DesiredPlugin, service: Service) -> DraState:
    """Return the driver's state. The kubelet is asked only if GPUs change their owner, or all is removed.

    Raises:
        InputError: if the library of HAMi-core does not have the digest of the options.
    """
    if desired.state == "started" and desired.library != NO_LIBRARY:
        verify(desired.library, host.read_bytes(desired.library.path))
    late = _late(host, service) if service.active and desired.owners.dra else ""
    if desired.state == "started" and owners_in(host.read(CONFIG)) != desired.owners:
        return DraState(late, moves=True, held=_held(host, desired.owners))
    if desired.state == "absent" and is_deployed(host):
        return DraState(late, held=_held(host, Owners()))
    return DraState(late)


def _held(host: Host, owners: Owners) -> t.Tuple[str, ...]:
    """Return the pods and claims that have a device of another owner than the desired one."""
    # Also claims whose pods are gone, until their devices are released.
    allocations, node = allocated.observe(host), []
    if allocations:
        with contextlib.suppress(NvmlError), open_nvml() as nvml:  # no devices if it can't be asked
            for gpu in nvml.gpus()[0]:
                parts = (tuple(nvml.gpu_instances(gpu)), tuple(nvml.mig_devices(gpu)))
                node.append(Devices(gpu, *parts))
    return handover.held(allocations, node, owners)


def status(host: Host) -> t.Mapping[str, t.Any]:
    """Return the driver's status file, empty if there is none."""
    return table_in(host.read(names.STATUS))


def wait(host: Host, service: Ask, timeout: float) -> None:
    """Wait until the driver serves, and a kubelet that listens has registered it.

    Raises:
        NodeError: if that takes longer than ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while reason := _late(host, service(names.UNIT)):
        if time.monotonic() >= deadline:
            hint = f"see 'journalctl -u {names.UNIT}' on the node"
            problem = f"after {timeout} s the DRA driver does not serve"
            raise NodeError(problem, cause=reason, hint=hint)
        time.sleep(PAUSE)


def _late(host: Host, unit: Service) -> str:
    """Return why the driver does not serve, or a kubelet that listens has not registered it; empty if all is well."""
    report = status(host)
    if str(report.get("pid")) != unit.properties.get("MainPID"):
        report = {}
    if report.get("state") != "serving":
        return str(report.get("problem") or report.get("state") or "it has not reported its state")
    if host.listens(KUBELET) and not report.get("registered"):
        return str(report.get("registration_problem") or "the kubelet does not know of it")
    return ""


def stop(host: Host, unit: str, *verb: str, check: bool = True) -> None:
    """Stop a service. A signal makes the DRA driver remove its slices first.

    The kubelet would remove them after half a minute; until then pods would get devices that nobody prepares.
    """
    if unit == names.UNIT:
        argv = ["systemctl", "kill", "--kill-who=main", "--signal=SIGUSR1", unit]
        host.run(argv, check=False)  # it may not run
    if check:
        systemctl(host, *verb, unit)
    else:
        host.run(["systemctl", *verb, unit], check=False)


def clean(host: Host) -> None:
    """Remove what the driver leaves on the node: its state, its sockets, and the specifications of claims."""
    specs = [name for name in host.listdir(CDI_FOLDER) if name.startswith(CDI_PREFIX)]
    for path in (*LEFT, *(f"{CDI_FOLDER}/{name}" for name in specs)):
        host.remove(path)
