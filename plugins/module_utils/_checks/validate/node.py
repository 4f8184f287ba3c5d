# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The state of a node, and all of its checks."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..._base.text.shown import counted
from ..._generated.validate import SPEC
from . import cdi, containers, dra, driver, gpus, plugin, services
from .cdi import SpecificationState
from .check import FAILED, Check, of_state, skipped, verdict
from .containers import ContainerState
from .daemon import SERVING, PluginReport
from .dra import DraFacts
from .driver import DriverFacts
from .gpus import GpuState
from .services import ServiceState

COMPONENTS: t.Sequence[str] = SPEC["argument_spec"]["components"]["choices"]
# What is on its way in the first seconds after a change.
SETTLING = {plugin.REGISTRATION, plugin.ALLOCATABLE, plugin.DEVICES, plugin.MPS, services.LABELS}
# A device is unhealthy until the CDI specification that was made anew has it.
SETTLING |= {*cdi.NAMES, plugin.HEALTH, dra.DRIVER, dra.SLICES}


class ValidateOptions(t.NamedTuple):
    """The GPUs, the driver and the parts that a node must have; a kubelet where it is required.

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


class NodeState(t.NamedTuple):
    """The state of a node; ``parts`` are the components that have left something on it.

    ``kubelet`` tells whether there is or was one that knows device plugins.
    """

    gpus: GpuState
    parts: t.FrozenSet[str] = frozenset()
    driver: DriverFacts = DriverFacts()
    plugin: PluginReport = PluginReport()
    dra: DraFacts = DraFacts()
    kubelet: bool = False
    cdi: SpecificationState = SpecificationState()
    containers: ContainerState = ContainerState()
    services: ServiceState = ServiceState()


def components(names: t.Sequence[str]) -> t.FrozenSet[str]:
    """Return the parts that a node must have; none where all are named, which says nothing of this node."""
    for name in names:
        if name not in COMPONENTS:
            raise InputError.of("components", name, f"one of {', '.join(COMPONENTS)}")
    return frozenset() if set(COMPONENTS) - {"validate"} <= set(names) else frozenset(names)


def checks(node: NodeState, options: ValidateOptions) -> t.List[Check]:
    """Return all checks of a node, in their order."""
    slow = "the driver is slow" if node.driver.slow else ""
    unread = slow or ("the driver does not answer" if node.driver.problem else "")
    report, tried = node.plugin, node.containers
    migs = None if unread else node.gpus.mig_uuids
    kubelet = plugin.Kubelet(node.kubelet, options.kubelet)
    count = gpus.count_without_aside if options.aside_may_be_missing else gpus.count
    answers = {f"in a container of {name}": answer for name, answer in tried.answers.items()}
    answers.update({"on the node": tried.beside} if tried.beside else {})
    if tried.client and not tried.client.cuda:  # what fails there is of MPS
        answers["in a client of MPS"] = tried.client
    labels = services.labels(
        report.labels, node.driver.loaded, required=options.kubelet, slow=bool(slow)
    )
    parts = {
        "mig": [gpus.layout(node.gpus.layout, unread), gpus.at_boot(report.mig)],
        "cdi": cdi.checks(report.cdi, None if unread else node.gpus.devices, node.cdi),
        "device_plugin": plugin.checks(report, migs, kubelet, tried.unreached, tried.client),
        "labels": [labels],
    }
    for part, checks_of_part in parts.items():
        if part not in (options.components or node.parts):
            absent = f"{part} is not among gpu_nodes_components"
            reason = absent if options.components else "not set up on this node"
            parts[part] = [skipped(check.name, reason) for check in checks_of_part]
    uuids = [gpu.uuid for gpu in node.gpus.answering]
    return [
        *driver.checks(node.driver, options.driver_version, options.driver_source),
        services.holds(node.services.holds),
        skipped(gpus.GPUS, slow) if slow else count(node.gpus, options.gpu_count),
        *gpus.quarantine(node.gpus.aside),
        *parts["mig"],
        *parts["cdi"],
        *tried.runtimes.values(),
        *(containers.container(name, answer, uuids) for name, answer in tried.answers.items()),
        containers.cuda(answers, unread or tried.cuda_unknown),
        *parts["device_plugin"],
        *dra.checks(node.dra, options.allocation, None if unread else node.gpus.answering, kubelet),
        *parts["labels"],
        services.services(node.services.units),
        services.in_service(node.services.change, options.change),
    ]


def settles(results: t.Iterable[Check]) -> bool:
    """Return whether what fails may be on its way: nothing else does."""
    bad = {check.name for check in of_state(results, FAILED)}
    return bool(bad) and bad <= SETTLING


def summary(node: NodeState, results: t.Sequence[Check]) -> str:
    """Return a line with the GPUs of the node, and whether it is ready."""
    facts = [verdict(results), counted(len(node.gpus.answering), "GPU")]
    if node.gpus.mig_uuids:
        facts.append(counted(len(node.gpus.mig_uuids), "MIG device"))
    if node.plugin.state == SERVING:
        resources = node.plugin.resources.values()
        healthy = sum(resource.healthy for resource in resources if resource.registered)
        facts.append(f"{counted(healthy, 'device')} advertised" if healthy else "none advertised")
    return ", ".join(facts)
