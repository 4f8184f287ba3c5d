# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From the settings of GPUs to those of the rules: steps, or a refusal with the reason."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.errors import NodeError
from .._base.gpu import (
    ACCOUNTING,
    CLOCKS,
    COMPUTE,
    ECC,
    NAMES,
    PERSISTENCE,
    POWER,
    POWER_PROFILES,
    Value,
)
from .._base.steps import Plan, Step
from .._node.users.busy import refuse_if_busy
from .rules import IN_MIG, Rule, resolve_rules
from .state import NOTHING, GpuState, shown

SET, FORGET = "set", "forget"
# Settings that the driver loses with the last process if persistence mode is off.
VOLATILE = (POWER, POWER_PROFILES, *CLOCKS)
WHY_NOT_IN_MIG = {
    ACCOUNTING: "the driver keeps it off",
    COMPUTE: "the driver keeps the default",
}
HELD_BACK = {
    POWER: "something else caps it, such as the BMC, and no run of this module lifts that",
    POWER_PROFILES: "the GPU's firmware decides between what it is asked for, by the BMC too",
}


class Unreadable(NodeError):
    """The driver can't read a setting of a GPU."""


class SettingsNode(t.NamedTuple):
    """The node: whether nvidia-persistenced runs, and whether Slurm sets clocks."""

    persistence_daemon: bool = True
    slurm_clocks: bool = False


class GpuPlan(t.NamedTuple):
    """The plan for a GPU: its settings after it, settings that it does not have, and what waits for a reset."""

    state: GpuState
    after: t.Mapping[str, Value]
    steps: t.Tuple[Step, ...] = ()
    unsupported: t.Tuple[str, ...] = ()
    pending: str = ""
    desired: t.FrozenSet[str] = frozenset()

    @property
    def held_back(self) -> t.Mapping[str, Value]:
        """Return the enforced power limit and power profiles that differ from the requested ones."""
        reported = self.state.reported
        return {
            name: value
            for name, value in reported.enforced.items()
            if reported.present.get(name, value) != value
        }


def plan(
    states: t.Sequence[GpuState], rules: t.Sequence[Rule], node: SettingsNode
) -> t.Tuple[Plan, t.Tuple[GpuPlan, ...]]:
    """Return the plan, and the plan for each GPU. Settings that no rule has any more are restored.

    Raises:
        InputError: if a board does not allow a rule.
        NodeError: if a setting can't be read or set.
    """
    plans = tuple(_plan_gpu(state, rules, node) for state in states)
    idle = [rule.key for rule in rules if not any(rule.matches(state.gpu) for state in states)]
    warnings = [f"settings: {key} matches no GPU of this node" for key in idle]
    for gpu_plan in plans:
        warnings += _warnings(gpu_plan, node)
    return (
        Plan(
            tuple(step for gpu_plan in plans for step in gpu_plan.steps),
            {gpu_plan.state.named: _shown_values(gpu_plan.state.values) for gpu_plan in plans},
            {gpu_plan.state.named: _shown_values(gpu_plan.after) for gpu_plan in plans},
            reboot_required=tuple(gpu_plan.pending for gpu_plan in plans if gpu_plan.pending),
            warnings=tuple(warnings),
        ),
        plans,
    )


def _plan_gpu(state: GpuState, rules: t.Sequence[Rule], node: SettingsNode) -> GpuPlan:
    """Return the plan for a GPU; one that a repair has set aside and that can't be read is left alone."""
    try:
        return _gpu(state, rules, node)
    except Unreadable as error:
        if not state.fenced:
            raise
        aside = dataclasses.replace(state, aside=f"set aside by a repair, and {error}")
        return GpuPlan(aside, state.values)


def _gpu(state: GpuState, rules: t.Sequence[Rule], node: SettingsNode) -> GpuPlan:
    if state.aside:
        return GpuPlan(state, state.values)
    desired = resolve_rules(rules, state.gpu, state.reported)
    over = {name: value for name, value in state.record.before.items() if name not in desired}
    _check_mig(state, desired)
    fixed = IN_MIG if _in_mig(state) else ()
    restored = {name: value for name, value in over.items() if name not in fixed}
    target = {**restored, **desired}
    _check_readable(state, target)
    unsupported = tuple(name for name in NAMES if name in desired and name not in state.values)
    steps = []
    for name in _differing(state, target):
        _check(state, name, target[name], node)
        steps.append(_step(state, name, target[name]))
    if over:
        summary = f"{state.named}: forget what {', '.join(over)} was before"
        steps.append(Step(FORGET, summary, {"gpu": state.gpu.uuid, "names": tuple(over)}))
    after = {name: target.get(name, value) for name, value in state.values.items()}
    pending = ""
    if ECC in state.values and state.values[ECC] != after[ECC]:
        mode = shown(ECC, after[ECC])
        pending = f"{state.named}: ECC is {mode} after a reset of the GPU or a reboot"
    return GpuPlan(state, after, tuple(steps), unsupported, pending, frozenset(desired))


def _check_readable(state: GpuState, target: t.Mapping[str, Value]) -> None:
    """Refuse to set, or to restore, a setting that the driver can't read."""
    for name in NAMES:
        if name in target and name in state.reported.failed:
            raise Unreadable(
                f"{state.named}: {name} can't be read",
                cause=state.reported.failed[name],
                hint=f"look at the GPU with nvidia-smi -q, or leave {name} out of the rules for it",
            )


def _differing(state: GpuState, target: t.Mapping[str, Value]) -> t.List[str]:
    """Return the settings that the GPU has, and whose values differ from the desired ones."""
    there = [name for name in NAMES if name in target and name in state.values]
    return [name for name in there if target[name] != _next(state, name)]


def _next(state: GpuState, name: str) -> Value:
    """Return the value of a setting; of ECC, that after the next reset."""
    return state.reported.ecc_next if name == ECC else state.values[name]


def _in_mig(state: GpuState) -> bool:
    return state.gpu.mig_current or state.gpu.mig_pending


def _check_mig(state: GpuState, desired: t.Mapping[str, Value]) -> None:
    """Refuse settings that a GPU can't have in MIG mode, also if a layout will bring it there."""
    is_in_mig = _in_mig(state)
    will_be = is_in_mig if state.partitioned is None else state.partitioned
    for name, value in IN_MIG.items() if will_be else ():
        if name in state.values and desired.get(name, value) != value:
            error = NodeError(
                f"{state.named}: {name} can't be {shown(name, desired[name])}",
                cause=f"the GPU is {'' if is_in_mig else 'to be '}in MIG mode, in which {WHY_NOT_IN_MIG[name]}",
                hint=f"leave {name} out of the rules for GPUs in MIG mode",
            )
            error.stays = True
            raise error


def _step(state: GpuState, name: str, value: Value) -> Step:
    before, after = shown(name, _next(state, name)), shown(name, value)
    summary = f"{state.named}: set {name} from {before} to {after}"
    needs = ("reset",) if name == ECC else ()
    return Step(SET, summary, {"gpu": state.gpu.uuid, "name": name, "value": value}, needs)


def _check(state: GpuState, name: str, value: Value, node: SettingsNode) -> None:
    """Refuse a setting that would take the GPU from its users, or that another program sets as well."""
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
        refusal = f"{state.named}: {name} can't be {shown(name, value)} now, as no other process could use the GPU then"
        refuse_if_busy(refusal, state.users)


class Compared(t.NamedTuple):
    """A setting of a GPU that rules have, as texts: its value, of ECC after the next reset, and the declared one."""

    name: str
    present: str
    declared: str
    drifted: bool


def compared(state: GpuState, rules: t.Sequence[Rule]) -> t.Tuple[Compared, ...]:
    """Compare a GPU with the rules.

    Raises:
        InputError: if its board does not allow them.
    """
    desired = resolve_rules(rules, state.gpu, state.reported)
    differing = _differing(state, desired)
    result = []
    for name in NAMES:
        if name in desired and name in state.values:
            present, declared = shown(name, _next(state, name)), shown(name, desired[name])
            result.append(Compared(name, present, declared, name in differing))
    return tuple(result)


def lost(
    state: GpuState, rules: t.Sequence[Rule], node: SettingsNode
) -> t.Tuple[t.Tuple[Step, ...], t.Tuple[str, ...]]:
    """Return the steps that set a GPU again that has lost its settings, and the errors of settings that are refused.

    ECC is never lost, so another mode was set by the user. The refusal of one setting does not affect the others.
    """
    steps: t.List[Step] = []
    refused = []
    for name in NAMES:
        named_rules = [rule for rule in rules if name in rule.settings]
        only = [rule._replace(settings={name: rule.settings[name]}) for rule in named_rules]
        if name != ECC and only:
            try:
                steps += _gpu(dataclasses.replace(state, record=NOTHING), only, node).steps
            except NodeError as error:
                refused.append(str(error))
    return tuple(steps), tuple(refused)


def _warnings(gpu_plan: GpuPlan, node: SettingsNode) -> t.Iterator[str]:
    state, after = gpu_plan.state, gpu_plan.after
    if state.aside:
        yield f"settings: left alone: {state.named} is {state.aside}"
    for name in gpu_plan.unsupported:
        yield f"settings: {state.named} has no {name}, so it is left out: {state.gpu.name}"
    for name, holds in gpu_plan.held_back.items():
        less = name == POWER and t.cast(int, holds) < t.cast(int, after[name])
        is_set = name != POWER and after[name] == state.values[name]
        if name in gpu_plan.desired and (less or is_set):
            warning = f"is set to {shown(name, after[name])}, and {shown(name, holds)} holds"
            yield f"settings: {state.named}: {name} {warning}: {HELD_BACK[name]}"
    unset = (None, (), state.reported.power_default)
    changed = [name for name in VOLATILE if after.get(name) not in unset]
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


def _shown_values(values: t.Mapping[str, Value]) -> t.Dict[str, str]:
    return {name: shown(name, values[name]) for name in NAMES if name in values}
