# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From the GPUs as they are to the layout that is wanted: steps, pictures and refusals."""

from __future__ import annotations

import dataclasses
import typing as t

from .._nvml.api import GiProfile, Gpu, GpuInstance, Process
from .errors import NodeError
from .mig_search import arrange, describe
from .steps import Step


@dataclasses.dataclass(frozen=True)
class GpuState:
    """A GPU with its profiles, instances and processes."""

    gpu: Gpu
    profiles: t.Tuple[GiProfile, ...]
    instances: t.Tuple[GpuInstance, ...]
    processes: t.Tuple[Process, ...]

    def name_of(self, instance: GpuInstance) -> str:
        """Return an instance's profile name."""
        return next((one.name for one in self.profiles if one.id == instance.profile_id), "unknown")


@dataclasses.dataclass(frozen=True)
class GpuPlan:
    """The steps for one GPU, and how it looks before and after; ``more`` as in Plan."""

    steps: t.Tuple[Step, ...]
    before: str
    after: str
    kept: int = 0
    pending: str = ""
    more: bool = False


def plan_gpu(state: GpuState, enabled: bool, layout: t.Mapping[str, int]) -> GpuPlan:
    """Plan for one GPU, or raise NodeError when it cannot be brought there."""
    try:
        return _plan_gpu(state, enabled, layout)
    except NodeError as error:
        error.message = (
            f"GPU {state.gpu.index} ({state.gpu.name}, {state.gpu.uuid}): {error.message}"
        )
        raise


def _plan_gpu(state: GpuState, enabled: bool, layout: t.Mapping[str, int]) -> GpuPlan:
    gpu, before = state.gpu, picture(state)
    if not gpu.mig_capable:
        if enabled:
            raise NodeError(
                "this GPU cannot be partitioned", hint="leave it out of the entry's devices"
            )
        return GpuPlan((), before, before)
    if gpu.mig_current != enabled and gpu.mig_pending == enabled:
        change = "on" if enabled else "off"
        return GpuPlan(
            (),
            before,
            before,
            pending=f"GPU {gpu.index}: MIG mode {change} waits for a reset or a reboot",
        )
    if not enabled:
        return _disable(state, before)
    if not state.profiles:
        # Drivers of branch 535 and older tell profiles only once MIG mode is on.
        return GpuPlan((_mode(state, True),), before, before, more=True)
    busy = {one.gi_id for one in state.processes if one.gi_id is not None}
    found = arrange(state.profiles, state.instances, layout, busy)
    steps: t.List[Step] = [] if gpu.mig_current else [_mode(state, True)]
    steps += _destroy(state, [one for one in state.instances if one not in found.keep])
    for instance in found.keep:
        if not instance.cis:
            steps.append(
                _step("create_ci", gpu, f"complete {_where(state, instance)}", gi=instance.id)
            )
    for profile, start in found.create:
        size = next(size for at, size in profile.placements if at == start)
        what = f"create {profile.name} at memory slices {start} to {start + size - 1}"
        steps.append(_step("create_gi", gpu, what, profile=profile.name, start=start))
    after = [(state.name_of(one), one.start, one.size) for one in found.keep]
    after += [(one.name, at, dict(one.placements)[at]) for one, at in found.create]
    return GpuPlan(tuple(steps), before, grid(state, after, True), kept=len(found.keep))


def _disable(state: GpuState, before: str) -> GpuPlan:
    steps = _destroy(state, state.instances)
    if state.gpu.mig_current:
        steps.append(_mode(state, False))
    return GpuPlan(tuple(steps), before, grid(state, [], False))


def _step(action: str, gpu: Gpu, words: str, **params: t.Any) -> Step:
    needs = ("idle_gpu",) if action in ("set_mig_mode", "destroy_gi") else ()
    return Step(action, f"GPU {gpu.index}: {words}", {"gpu": gpu.uuid, **params}, needs)


def _mode(state: GpuState, on: bool) -> Step:
    _refuse_if_busy(f"MIG mode cannot be switched {'on' if on else 'off'}", state.processes)
    return _step("set_mig_mode", state.gpu, f"switch MIG mode {'on' if on else 'off'}", on=on)


def _destroy(state: GpuState, doomed: t.Sequence[GpuInstance]) -> t.List[Step]:
    ids = {one.id for one in doomed}
    holders = [one for one in state.processes if one.gi_id in ids]
    held = {one.gi_id for one in holders}
    where = ", ".join(_where(state, one) for one in doomed if one.id in held)
    _refuse_if_busy(f"{where} cannot be destroyed", holders)
    return [
        _step("destroy_gi", state.gpu, f"destroy {_where(state, one)}", gi=one.id) for one in doomed
    ]


def _refuse_if_busy(what: str, processes: t.Sequence[Process]) -> None:
    if processes:
        names = ", ".join(f"{one.pid} ({one.name or 'unknown'})" for one in processes)
        raise NodeError(
            what,
            cause=f"in use by process {names}",
            hint="stop them and run again",
            blocked_by=names,
        )


def _where(state: GpuState, instance: GpuInstance) -> str:
    return f"{state.name_of(instance)} (instance {instance.id}) at memory slice {instance.start}"


def picture(state: GpuState) -> str:
    """Return a GPU's memory grid as it is."""
    placed = [(state.name_of(one), one.start, one.size) for one in state.instances]
    return grid(state, placed, state.gpu.mig_current)


def grid(state: GpuState, placed: t.Sequence[t.Tuple[str, int, int]], enabled: bool) -> str:
    """Return a memory grid: each instance in brackets, as wide as it is large, free slices as dots."""
    head = f"GPU {state.gpu.index} {state.gpu.uuid}: "
    if not enabled:
        return f"{head}MIG off"
    total = max(
        (start + size for one in state.profiles for start, size in one.placements), default=0
    )
    starts = {start: (name, size) for name, start, size in placed}
    cells, at = [], 0
    while at < total:
        name, size = starts.get(at, (".", 1))
        cells.append(f"[{name:^{max(1, 10 * size - 2)}}]" if name != "." else f"{'.':^10}")
        at += size
    return head + "".join(cells)


__all__ = ["GpuPlan", "GpuState", "describe", "plan_gpu"]
