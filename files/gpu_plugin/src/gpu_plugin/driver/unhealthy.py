# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is unhealthy now: which GPU or MIG instance, why, since when, and what brings it back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .._shared._node.quarantine import Quarantine
from .._shared._repair.actions import STEPS, Action
from ..model.inventory import RELEASE, GpuView, Inventory, Kind, Place, Problem

BY_ITSELF: Final = "it passes by itself"
WAYS_BACK: Final = {
    Kind.LOST: f"{STEPS[Action.REBOOT]}, or {STEPS[Action.RESET]} where NVML says that it needs one",
    Kind.HUNG: f"{BY_ITSELF} as soon as NVML answers for it again",
    Kind.UNREADABLE: f"{BY_ITSELF} as soon as the GPU can be read again",
}


@dataclass(frozen=True)
class Unhealthy:
    """A GPU, or one of its MIG instances where ``gi`` is given, and why it must not be used.

    ``index`` is NVML's, empty for a GPU that is gone; ``since`` are seconds since 1970. ``clearable``:
    `gpu-plugin health clear` brings it back. ``verdict`` is what is to be done, by its name.
    """

    gpu: str
    index: str
    gi: int | None
    ci: int | None
    kind: str
    reason: str
    since: int
    way_back: str
    clearable: bool = False
    verdict: str = ""


@dataclass(frozen=True)
class Standing:
    """A fault that stands: why, since when, what brings the GPU back, if an operator's word does, and the verdict."""

    place: Place
    reason: str
    since: int
    way_back: str
    clearable: bool
    verdict: Action


class Onsets:
    """When what has no memory of its own began, such as that NVML is slow."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, Kind], int] = {}

    def of(self, now: Iterable[tuple[str, Kind]], clock: float) -> dict[tuple[str, Kind], int]:
        """Return since when each of these goes on; what is none of them any more is forgotten."""
        self._since = {one: self._since.get(one, int(clock)) for one in now}
        return self._since


def hindrances(inventory: Inventory) -> Iterator[tuple[GpuView, Problem]]:
    """Return what keeps GPUs from being used besides faults."""
    for view in inventory.gpus:
        if view.problem:
            yield view, view.problem
        elif view.gpu.uuid in inventory.hung:
            yield view, inventory.no_answer


def verdicts(judged: Inventory) -> Iterator[tuple[GpuView, Action, str]]:
    """Return the GPUs about which something is to be done, with the strongest of it and why.

    ``judged`` is the inventory with what makes GPUs unhealthy. What a GPU asks for is among it also where it keeps
    nobody from using the GPU.
    """
    for view in judged.gpus:
        found = [(one.action, one.text) for one in view.verdict.reasons]
        problems = filter(None, (view.problem, *view.mig_problems.values()))
        found += [(one.verdict, one.reason) for one in problems]
        action, text = max(found, key=lambda one: one[0], default=(Action.NONE, ""))
        if action:
            yield view, action, text


def unhealthy(
    inventory: Inventory, standing: Iterable[Standing], onsets: Onsets, clock: float
) -> tuple[Unhealthy, ...]:
    """Return everything that is unhealthy, by GPU and instance. ``clock`` is the time since 1970."""
    indices = {view.gpu.uuid: str(view.gpu.index) for view in inventory.gpus}
    found = list(hindrances(inventory))
    since = onsets.of(((view.gpu.uuid, one.kind) for view, one in found), clock)
    kinds = {view.gpu.uuid: one.kind for view, one in found}
    rows = []
    noted = set()
    for one in standing:
        uuid, gi, ci = one.place
        lost = gi is None and kinds.get(uuid) is Kind.LOST
        kind = Kind.LOST if lost else Kind.FAULT
        noted |= {(uuid, kind)}
        index = indices.get(uuid, "")
        why = (kind.value, one.reason, one.since, one.way_back, one.clearable, one.verdict.word)
        rows.append(Unhealthy(uuid, index, gi, ci, *why))
    for view, problem in found:
        uuid, kind = view.gpu.uuid, problem.kind
        if (uuid, kind) not in noted:
            way = WAYS_BACK.get(kind, "")
            told = (kind.value, problem.reason, since[uuid, kind], way, False, problem.verdict.word)
            rows.append(Unhealthy(uuid, indices[uuid], None, None, *told))
    return tuple(sorted([*rows, *_set_aside(inventory.quarantine, indices)], key=_order))


def _set_aside(found: Quarantine, indices: Mapping[str, str]) -> Iterator[Unhealthy]:
    """Return what is in quarantine, also GPUs that are gone."""
    for uuid in dict.fromkeys([*found.gpus, *(indices if found.node else ())]):
        if entry := found.of(uuid):
            why = (Kind.QUARANTINED.value, str(entry), int(entry.since), RELEASE)
            yield Unhealthy(uuid, indices.get(uuid, ""), None, None, *why)


def _order(one: Unhealthy) -> tuple[str, int, int, str]:
    gi, ci = (-1 if number is None else number for number in (one.gi, one.ci))
    return one.gpu, gi, ci, one.kind
