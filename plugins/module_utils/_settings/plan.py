# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From what GPUs are set to, to what the rules say: steps, or a refusal that says why."""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError
from .._base.gpu import CLOCKS, COMPUTE, ECC, NAMES, PERSISTENCE, POWER, Value
from .._base.steps import Plan, Step
from .._node.users.busy import refuse_if_busy
from .rules import Rule, wanted
from .state import GpuState, shown

SET, FORGET = "set", "forget"
# What the driver forgets with the last process, where persistence mode is off.
VOLATILE = (POWER, *CLOCKS)


class Node(t.NamedTuple):
    """What else is known: whether nvidia-persistenced runs, and whether Slurm sets clocks."""

    persistence_daemon: bool = True
    slurm_clocks: bool = False


class GpuPlan(t.NamedTuple):
    """What is done to a GPU: what it is set to after it, what it does not have, and what waits for a reset."""

    state: GpuState
    after: t.Mapping[str, Value]
    steps: t.Tuple[Step, ...] = ()
    unsupported: t.Tuple[str, ...] = ()
    pending: str = ""


def plan(
    states: t.Sequence[GpuState], rules: t.Sequence[Rule], node: Node
) -> t.Tuple[Plan, t.Tuple[GpuPlan, ...]]:
    """Return the plan, and what of it is for each GPU. InputError, NodeError: it can't be carried out.

    What no rule asks for any more becomes what it was before.
    """
    plans = tuple(_gpu(one, rules, node) for one in states)
    idle = [one.key for one in rules if not any(one.matches(state.gpu) for state in states)]
    warnings = [f"settings: {key} matches no GPU of this node" for key in idle]
    for one in plans:
        warnings += _warnings(one, node)
    return (
        Plan(
            tuple(step for one in plans for step in one.steps),
            {one.state.named: _words(one.state.now) for one in plans},
            {one.state.named: _words(one.after) for one in plans},
            reboot_required=tuple(one.pending for one in plans if one.pending),
            warnings=tuple(warnings),
        ),
        plans,
    )


def _gpu(state: GpuState, rules: t.Sequence[Rule], node: Node) -> GpuPlan:
    asked = wanted(rules, state.gpu, state.told)
    over = {name: value for name, value in state.kept.before.items() if name not in asked}
    target = {**over, **asked}
    unsupported = tuple(name for name in NAMES if name in asked and name not in state.now)
    steps = []
    for name in NAMES:
        if name in target and name in state.now and target[name] != _next(state, name):
            _check(state, name, target[name], node)
            steps.append(_step(state, name, target[name]))
    if over:
        words = f"{state.named}: forget what {', '.join(over)} was before"
        steps.append(Step(FORGET, words, {"gpu": state.gpu.uuid, "names": tuple(over)}))
    after = {name: target.get(name, value) for name, value in state.now.items()}
    pending = ""
    if ECC in state.now and state.now[ECC] != after[ECC]:
        pending = (
            f"{state.named}: ECC is {shown(ECC, after[ECC])} after a reset of the GPU or a reboot"
        )
    return GpuPlan(state, after, tuple(steps), unsupported, pending)


def _next(state: GpuState, name: str) -> Value:
    """Return what a setting is, or will be after the next reset."""
    return state.told.ecc_next if name == ECC else state.now[name]


def _step(state: GpuState, name: str, value: Value) -> Step:
    words = f"{state.named}: {name} from {shown(name, _next(state, name))} to {shown(name, value)}"
    return Step(SET, words, {"gpu": state.gpu.uuid, "name": name, "value": value})


def _check(state: GpuState, name: str, value: Value, node: Node) -> None:
    """Refuse what would take the GPU from somebody, and what another program sets as well."""
    if name in CLOCKS and value is not None and node.slurm_clocks:
        raise NodeError(
            f"{state.named}: {name} can't be locked",
            cause="Slurm sets the clocks of GPUs itself, by GpuFreqDef in slurm.conf, and unlocks them after each job",
            hint=f"leave {name} out of the rules for nodes of Slurm, or GpuFreqDef out of slurm.conf",
        )
    if name == COMPUTE and state.mps:
        raise NodeError(
            f"{state.named}: {name} can't be set",
            cause="MPS shares the GPU, and sets the mode itself",
            hint=f"leave {name} out of the rules for GPUs that are shared by MPS",
        )
    if name == COMPUTE and value != "default":
        what = f"{state.named}: {name} can't be {shown(name, value)} now, as no other process could use the GPU then"
        refuse_if_busy(what, state.users)


def _warnings(one: GpuPlan, node: Node) -> t.Iterator[str]:
    state, after = one.state, one.after
    for name in one.unsupported:
        yield f"settings: {state.named} has no {name}, so it is left out: {state.gpu.name}"
    changed = [name for name in VOLATILE if after.get(name) not in (None, state.told.power_default)]
    if changed and not after.get(PERSISTENCE, True):
        yield (
            f"settings: {state.named}: persistence is off, so the driver forgets {', '.join(changed)} "
            "when the last process has left the GPU. Next step: set persistence: true"
        )
    if after.get(PERSISTENCE) and not node.persistence_daemon:
        yield (
            f"settings: {state.named}: persistence is in its legacy mode, as nvidia-persistenced does not run. "
            "Next step: run gpu.node.nvidia_driver, which starts it"
        )


def _words(values: t.Mapping[str, Value]) -> t.Dict[str, str]:
    return {name: shown(name, values[name]) for name in NAMES if name in values}
