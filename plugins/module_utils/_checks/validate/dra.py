# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DRA's side: who gives out GPUs is as declared, the driver serves, and what it publishes can be had."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.dra.allocation import BY_DEFAULT, Owners
from ..._base.dra.names import DEVICE_PLUGIN, DRA, UNIT
from ..._base.gpu import Gpu
from ..._base.text.json_data import table, text
from .check import Check, because, judged, skipped
from .daemon import SERVING
from .plugin import Kubelet

ALLOCATION, DRIVER = "allocation", "DRA driver"
SLICES, ENFORCEMENT = "slices", "enforcement"
NAMES = (ALLOCATION, DRIVER, SLICES, ENFORCEMENT)
VARIABLE, LOG = "gpu_nodes_allocation", f"see the log of {UNIT}"


@dataclasses.dataclass(frozen=True)
class DraReport:
    """What the DRA driver says of itself; ``gpus`` are those that it has, by UUID.

    ``unpublished`` is why the cluster does not have its slices, ``unenforced`` what keeps shares from being
    enforced, by UUID.
    """

    state: str = ""
    problem: str = ""
    registered: bool = False
    registration_problem: str = ""
    enforcement: str = ""
    unpublished: str = ""
    unenforced: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    gpus: t.FrozenSet[str] = frozenset()

    @classmethod
    def of(cls, status: t.Any) -> DraReport:
        """Read the driver's status, also of another version, or none."""
        report = table(status)
        problems = table(report.get("enforcement_problems"))
        return cls(
            state=text(report.get("state")),
            problem=text(report.get("problem")),
            registered=report.get("registered") is True,
            registration_problem=text(report.get("registration_problem")),
            enforcement=text(report.get("enforcement")),
            unpublished=text(table(report.get("published")).get("problem")),
            unenforced={uuid: str(problem) for uuid, problem in problems.items() if problem},
            gpus=frozenset(table(report.get("gpus"))),
        )


@dataclasses.dataclass(frozen=True)
class DraFacts:
    """Who gives out GPUs by the node's configuration, and what the driver says."""

    owners: Owners = BY_DEFAULT
    driver: DraReport = dataclasses.field(default_factory=DraReport)


def checks(
    dra: DraFacts, declared: str, gpus: t.Optional[t.Sequence[Gpu]], kubelet: Kubelet
) -> t.List[Check]:
    """Return the checks of DRA; none on a node without it. ``gpus`` are None where they are not known."""
    there = dra.owners.allocation
    if there == DEVICE_PLUGIN and declared in ("", DEVICE_PLUGIN):
        return []
    cause = f"{VARIABLE} is {declared}, and the node has {there}"
    differs = bool(declared) and declared != there
    first = judged(ALLOCATION, cause if differs else "", "run gpu.node.gpu_nodes")
    if not dra.owners.dra:
        return [first, *(skipped(name, "the device plugin has all GPUs") for name in NAMES[1:])]
    if dra.driver.state != SERVING:
        problem = dra.driver.problem or dra.driver.state or "it does not run"
        silent = judged(DRIVER, f"the DRA driver is not serving ({problem})", LOG)
        late = (skipped(name, "the DRA driver does not serve") for name in NAMES[2:])
        return [first, silent, *late]
    why = because([dra.driver.registration_problem])
    cause = "" if dra.driver.registered else f"the kubelet does not know of the DRA driver{why}"
    checked = (_late(DRIVER, cause, kubelet), _slices(dra, gpus, kubelet))
    return [first, *checked, _enforced(dra.driver)]


def _late(name: str, cause: str, kubelet: Kubelet) -> Check:
    """Return a check of what a node gets with its cluster: before it joins, that is a warning."""
    step = f"join the node to its cluster; {LOG}"
    return judged(name, cause, step, fails=kubelet.there or kubelet.required)


def _slices(dra: DraFacts, gpus: t.Optional[t.Sequence[Gpu]], kubelet: Kubelet) -> Check:
    """Check that what is published is of the GPUs that are the driver's."""
    if dra.driver.unpublished:
        cause = f"what the cluster has of the node's GPUs is not as it should be{because([dra.driver.unpublished])}"
        return _late(SLICES, cause, kubelet)
    if gpus is None:
        return skipped(SLICES, "the driver does not answer")
    ours = frozenset(gpu.uuid for gpu in gpus if dra.owners.of(gpu) == DRA)
    wrong = sorted(ours ^ dra.driver.gpus)
    cause = f"what is published and what is given to DRA differ in {', '.join(wrong)}"
    return judged(SLICES, cause if wrong else "", f"systemctl restart {UNIT}")


def _enforced(driver: DraReport) -> Check:
    """Check that shares can be limited as they are to be; without it they are not given at all."""
    faults = "; ".join(f"{uuid}: {why}" for uuid, why in sorted(driver.unenforced.items()))
    cause = f"{driver.enforcement} is not ready: {faults}" if faults else ""
    return judged(ENFORCEMENT, cause, "see docs/fractions/enforcement.md for what it needs")
