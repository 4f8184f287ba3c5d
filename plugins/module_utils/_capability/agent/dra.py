# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The DRA driver's part of a deployment: its options, who has which of its devices, and what it leaves."""

from __future__ import annotations

import posixpath
import typing as t

from ..._core.agent.deployment import Service
from ..._core.agent.desired import CONFIG, UNITS, Desired
from ..._core.allocated import Devices
from ..._core.dra import handover, names
from ..._core.dra.allocation import (
    DEFAULTS,
    OVERSUBSCRIPTIONS,
    REFUSE,
    Owners,
    owners_in,
)
from ..._core.gpu import NvmlError
from ..._host.api import Host
from ..._nvml.real import Nvml, open_nvml
from .. import allocated

OPTIONS: t.Dict[str, t.Any] = {
    "allocation": {
        "type": "str",
        "choices": list(names.ALLOCATIONS),
        "default": names.DEVICE_PLUGIN,
    },
    "dra": {
        "type": "dict",
        "apply_defaults": True,
        "options": {
            "devices": {"type": "list", "elements": "str", "default": []},
            "enforcement": {
                "type": "str",
                "choices": list(names.ENFORCEMENTS),
                "default": names.MPS,
            },
            "split_count": {"type": "int", "default": DEFAULTS["split_count"]},
            "memory_scaling": {"type": "float", "default": DEFAULTS["memory_scaling"]},
            "oversubscribe": {
                "type": "str",
                "choices": list(OVERSUBSCRIPTIONS),
                "default": REFUSE,
            },
            "hami_core_library": {"type": "path", "default": ""},
        },
    },
}
CDI_FOLDER, CDI_PREFIX = "/run/cdi", names.CDI_KIND.replace("/", "-")
LEFT = (
    names.STATUS,
    names.REGISTRATION,
    posixpath.dirname(names.SOCKET),
    posixpath.dirname(names.CHECKPOINT),
)


def observe(
    host: Host, desired: Desired, service: t.Callable[[str], Service]
) -> t.Dict[str, t.Any]:
    """Return what Observed has of DRA. The kubelet is asked only where GPUs change their owner, or all goes."""
    there = host.exists(f"{UNITS}/{names.UNIT}")
    found: t.Dict[str, t.Any] = {"dra": service(names.UNIT) if there else Service()}
    if desired.state == "started":
        before = owners_in(host.read(CONFIG))
        if before != desired.owners:
            found.update(moves=True, held=_held(host, desired.owners))
    elif desired.state == "absent" and there:
        found.update(held=_held(host, Owners()))
    return found


def _held(host: Host, wanted: Owners) -> t.Tuple[str, ...]:
    """Return who has a device of another owner than is wanted. NodeError: that is not known."""
    given = allocated.observe(host)
    return handover.held(given, _devices() if given else (), wanted)


def _devices() -> t.Tuple[Devices, ...]:
    """Return the GPUs with what can be given out of them; none where NVML cannot be asked."""
    try:
        with open_nvml() as nvml:
            return tuple(_of(nvml, gpu) for gpu in nvml.gpus()[0])
    except NvmlError:
        return ()


def _of(nvml: Nvml, gpu: t.Any) -> Devices:
    return Devices(gpu, tuple(nvml.gpu_instances(gpu)), tuple(nvml.mig_devices(gpu)))


def clean(host: Host) -> None:
    """Remove what the driver leaves on the node: its state, its sockets, and the specifications of claims."""
    specs = [name for name in host.listdir(CDI_FOLDER) if name.startswith(CDI_PREFIX)]
    for path in (*LEFT, *(f"{CDI_FOLDER}/{name}" for name in specs)):
        host.remove(path)
