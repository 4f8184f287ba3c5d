# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node as it was found, and all of its checks."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.gpu import Gpu, MigDevice, Process
from ..._base.text.shown import counted
from ..._generated.validate import SPEC
from ..._node.gpu_record import NOT_RECORDED, Gpus
from ..._node.in_service import Change
from . import cdi, containers, dra, driver, gpus, plugin, services
from .cdi import Current
from .check import FAILED, Check, of_state, skipped, verdict
from .containers import Answer
from .daemon import SERVING, Daemon
from .dra import Dra
from .driver import Driver
from .gpus import Layout
from .services import Holds, Unit

COMPONENTS: t.Sequence[str] = SPEC["argument_spec"]["components"]["choices"]
# What is on its way in the first seconds after a change.
SETTLING = {plugin.REGISTRATION, plugin.ALLOCATABLE, plugin.DEVICES, plugin.MPS, services.LABELS}
# A device is unhealthy until the CDI specification that was made anew has it.
SETTLING |= {*cdi.NAMES, plugin.HEALTH, dra.DRIVER, dra.SLICES}


class Wanted(t.NamedTuple):
    """What a node must have: GPUs, a driver, and those parts; a kubelet where it is required.

    ``allocation`` is who is to give out its GPUs, empty where nobody has said; ``change`` the change in service that
    this is a part of, if it is. ``aside_may_be_missing`` tells whether a GPU in quarantine need not answer.
    """

    gpu_count: int = -1
    driver_version: str = ""
    driver_source: str = ""
    components: t.FrozenSet[str] = frozenset()
    kubelet: bool = False
    allocation: str = ""
    change: str = ""
    aside_may_be_missing: bool = False


@dataclasses.dataclass(frozen=True)
class Node:
    """What was found. ``parts`` are the components that have left something on the node.

    ``runtimes`` are, by their names, whether they read the CDI specification, ``containers`` what the driver says in
    one of each, ``beside`` on the node itself, and ``client`` with a share of MPS. ``idle`` is a device that nobody
    uses, by its UUID; empty where there is none. ``unreached`` is why nothing that the device plugin gives out reaches
    a container.
    """

    pci_gpus: int
    recorded: Gpus = NOT_RECORDED
    aside: gpus.SetAside = gpus.NOTHING_ASIDE
    parts: t.FrozenSet[str] = frozenset()
    driver: Driver = dataclasses.field(default_factory=Driver)
    gpus: t.Tuple[Gpu, ...] = ()
    lost_gpus: t.Tuple[str, ...] = ()
    mig_uuids: t.Tuple[str, ...] = ()
    layout: t.Optional[Layout] = None
    daemon: Daemon = dataclasses.field(default_factory=Daemon)
    dra: Dra = dataclasses.field(default_factory=Dra)
    kubelet: bool = False
    cdi: Current = dataclasses.field(default_factory=Current)
    unreached: t.Optional[NodeError] = None
    runtimes: t.Mapping[str, Check] = dataclasses.field(default_factory=dict)
    containers: t.Mapping[str, Answer] = dataclasses.field(default_factory=dict)
    beside: t.Optional[Answer] = None
    client: t.Optional[Answer] = None
    cuda_unknown: str = ""
    idle: str = ""
    units: t.Tuple[Unit, ...] = ()
    holds: Holds = dataclasses.field(default_factory=Holds)
    change: t.Optional[Change] = None

    @property
    def devices(self) -> t.Tuple[str, ...]:
        """Return the UUIDs of what can be given away: a GPU in MIG mode is there by its MIG devices only."""
        return (*(one.uuid for one in self.gpus if not one.mig_current), *self.mig_uuids)


def idle(
    found: t.Sequence[Gpu],
    migs: t.Sequence[MigDevice],
    processes: t.Sequence[Process],
    used: t.Container[str],
) -> str:
    """Return a device that no process and no pod has, whole GPUs first; empty where there is none."""
    busy = {(one.gpu_uuid, one.gi_id) for one in processes}
    names = [one.uuid for one in found if not one.mig_current and (one.uuid, None) not in busy]
    names += [one.uuid for one in migs if (one.gpu_uuid, one.gi_id) not in busy]
    return next((one for one in names if one not in used), "")


def components(names: t.Sequence[str]) -> t.FrozenSet[str]:
    """Return the parts that a node must have; none where all are named, which says nothing of this node."""
    for one in names:
        if one not in COMPONENTS:
            raise InputError.of("components", one, f"one of {', '.join(COMPONENTS)}")
    return frozenset() if set(COMPONENTS) - {"validate"} <= set(names) else frozenset(names)


def checks(node: Node, wanted: Wanted) -> t.List[Check]:
    """Return all checks of a node, in their order."""
    slow = "the driver is slow" if node.driver.slow else ""
    unread = slow or ("the driver does not answer" if node.driver.problem else "")
    uuids = None if unread else node.devices
    migs = None if unread else node.mig_uuids
    daemon, kubelet = node.daemon, plugin.Kubelet(node.kubelet, wanted.kubelet)
    lost = (node.lost_gpus, node.recorded)
    count = gpus.count(node.pci_gpus, len(node.gpus), wanted.gpu_count, *lost)
    if wanted.aside_may_be_missing:
        aside = node.aside.found
        count = gpus.without(count, aside, node.gpus, node.recorded, wanted.gpu_count)
    boot = (daemon.mig_boot_state, daemon.mig_boot_problems)
    mig = [gpus.layout(node.layout, unread), gpus.at_boot(*boot)]
    tried = node.containers.items()
    answers = {f"in a container of {name}": one for name, one in tried}
    answers.update({"on the node": node.beside} if node.beside else {})
    if node.client and not node.client.cuda:  # what fails there is of MPS
        answers["in a client of MPS"] = node.client
    labels = services.labels(
        daemon.labels, node.driver.loaded, required=wanted.kubelet, slow=bool(slow)
    )
    devices = plugin.checks(daemon, migs, kubelet, node.unreached, node.client)
    return [
        *driver.checks(node.driver, wanted.driver_version, wanted.driver_source),
        services.holds(node.holds),
        skipped(gpus.GPUS, slow) if slow else count,
        *gpus.quarantine(node.aside),
        *_part("mig", mig, node, wanted),
        *_part("cdi", cdi.checks(daemon, uuids, node.cdi), node, wanted),
        *node.runtimes.values(),
        *(containers.container(*one, [gpu.uuid for gpu in node.gpus]) for one in tried),
        containers.cuda(answers, unread or node.cuda_unknown),
        *_part("device_plugin", devices, node, wanted),
        *dra.checks(node.dra, wanted.allocation, None if unread else node.gpus, kubelet),
        *_part("labels", [labels], node, wanted),
        services.services(node.units),
        services.in_service(node.change, wanted.change),
    ]


def _part(part: str, found: t.Sequence[Check], node: Node, wanted: Wanted) -> t.Sequence[Check]:
    """Return the checks of a part that the node has or must have; the others are skipped."""
    if part in (wanted.components or node.parts):
        return found
    absent = f"{part} is not among gpu_nodes_components"
    why = absent if wanted.components else "not set up on this node"
    return [skipped(one.name, why) for one in found]


def settles(found: t.Iterable[Check]) -> bool:
    """Tell whether what fails may be on its way: nothing else does."""
    bad = {one.name for one in of_state(found, FAILED)}
    return bool(bad) and bad <= SETTLING


def summary(node: Node, found: t.Sequence[Check]) -> str:
    """Return in a line what the node has, and whether it is ready."""
    words = [verdict(found), counted(len(node.gpus), "GPU")]
    healthy = sum(one.healthy for one in node.daemon.resources.values() if one.registered)
    if node.mig_uuids:
        words.append(counted(len(node.mig_uuids), "MIG device"))
    if node.daemon.state == SERVING:
        words.append(f"{counted(healthy, 'device')} advertised" if healthy else "none advertised")
    return ", ".join(words)
