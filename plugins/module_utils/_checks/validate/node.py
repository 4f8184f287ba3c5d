# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The state of a node, and all checks that are evaluated on it. Pure."""

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
# The checks that may fail in the first seconds after a change, while a kubelet or a daemon catches up.
SETTLING = {plugin.REGISTRATION, plugin.ALLOCATABLE, plugin.DEVICES, plugin.MPS, services.LABELS}
# Devices are unhealthy until the new CDI specification has them.
SETTLING |= {*cdi.NAMES, plugin.HEALTH, dra.DRIVER, dra.SLICES}


class ValidateOptions(t.NamedTuple):
    """What a node must have.

    Attributes:
        gpu_count: The number of GPUs, -1 for those on the PCI bus.
        driver_version: The version of the driver, empty for any.
        driver_source: Where the driver must come from, empty for anywhere.
        components: The parts that must be set up; without any, those are checked that the node has.
        kubelet: Whether a kubelet must know the device plugin.
        allocation: What must allocate the GPUs to pods, empty if it was not said.
        change: The change in service that the validation is a part of, empty if there is none.
        aside_may_be_missing: Whether GPUs in quarantine need not answer.
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
    """The state of a node.

    ``parts`` are the components with traces on the node; ``kubelet`` is whether it has, or had, a kubelet that knows
    device plugins.
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


def required_components(names: t.Sequence[str]) -> t.FrozenSet[str]:
    """Return the parts that a node must have.

    A list of all components is a default for many nodes and says nothing of this one. As with an empty list, none is
    required then, and those that are set up are checked.

    Raises:
        InputError: if a name is not that of a component.
    """
    for name in names:
        if name not in COMPONENTS:
            raise InputError.of("components", name, f"one of {', '.join(COMPONENTS)}")
    return frozenset() if set(COMPONENTS) - {"validate"} <= set(names) else frozenset(names)


def evaluate_checks(node: NodeState, options: ValidateOptions) -> t.List[Check]:
    """Return all checks of a node, in their order.

    Checks of parts that are not required, or not set up, are skipped. Facts that the driver has not reported are None.
    """
    slow = "the driver is slow" if node.driver.slow else ""
    unread = slow or ("the driver does not answer" if node.driver.problem else "")
    report, containers_state = node.plugin, node.containers
    mig_uuids = None if unread else node.gpus.mig_uuids
    kubelet = plugin.Kubelet(node.kubelet, options.kubelet)
    count = gpus.count_without_aside if options.aside_may_be_missing else gpus.count
    by_runtime = containers_state.answers
    answers = {f"in a container of {name}": answer for name, answer in by_runtime.items()}
    if containers_state.beside:
        answers["on the node"] = containers_state.beside
    client = containers_state.client
    if client and not client.cuda:  # a failure there is one of MPS, which plugin.checks() reports
        answers["in a client of MPS"] = client
    labels = services.labels(
        report.labels, node.driver.loaded, required=options.kubelet, slow=bool(slow)
    )
    parts = {
        "mig": [gpus.layout(node.gpus.layout, unread), gpus.at_boot(report.mig)],
        "cdi": cdi.checks(report.cdi, None if unread else node.gpus.devices, node.cdi),
        "device_plugin": plugin.checks(
            report, mig_uuids, kubelet, containers_state.unreached, client
        ),
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
        *gpus.acceptance(node.gpus.unaccepted),
        *parts["mig"],
        *parts["cdi"],
        *containers_state.runtimes.values(),
        *(containers.container(name, answer, uuids) for name, answer in by_runtime.items()),
        containers.cuda(answers, unread or containers_state.cuda_unknown),
        *parts["device_plugin"],
        *dra.checks(node.dra, options.allocation, None if unread else node.gpus.answering, kubelet),
        *parts["labels"],
        services.services(node.services.units),
        services.in_service(node.services.change, options.change),
    ]


def may_settle(results: t.Iterable[Check]) -> bool:
    """Return whether checks fail, and all of those may hold in a few seconds."""
    failed = {check.name for check in of_state(results, FAILED)}
    return bool(failed) and failed <= SETTLING


def summarize(node: NodeState, results: t.Sequence[Check]) -> str:
    """Return a line that says whether the node is ready, and what it has and advertises."""
    facts = [verdict(results), counted(len(node.gpus.answering), "GPU")]
    if node.gpus.mig_uuids:
        facts.append(counted(len(node.gpus.mig_uuids), "MIG device"))
    if node.plugin.state == SERVING:
        resources = node.plugin.resources.values()
        healthy = sum(resource.healthy for resource in resources if resource.registered)
        facts.append(f"{counted(healthy, 'device')} advertised" if healthy else "none advertised")
    return ", ".join(facts)
