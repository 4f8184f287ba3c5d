# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan of resets: the GPUs that one command resets, and the reasons why others are not reset."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.steps import IDLE_GPU, Step
from ..._node.resets import REBOOT
from ..._node.users.busy import DRAIN, refuse_if_busy
from ..selection import gpus_named
from ..signs import Action
from ..verdict import Reason, gpu_reasons, reset_rule
from ..xids.table import Table
from .state import ResetGpu, ResetState

ALL, WHEN_NEEDED = "all", "when_needed"
RESET, END_SERVER = "reset_gpu", "end_mps_server"
NVLINK5 = 5
BUS_RESET = 6  # NVML's recovery action
NO_XIDS = Table(None, {})
AGAIN = "see the kernel's log, bring up the driver, and run again"
REPLACE = "replace the GPU; what a reset brings back may not last"


class ResetGroup(t.NamedTuple):
    """GPUs that are reset by one command; ``whole`` is each of the node, with its NVSwitches."""

    gpus: t.Tuple[ResetGpu, ...]
    whole: bool = False


def chosen_gpus(state: ResetState, names: t.Sequence[str]) -> t.Tuple[ResetGpu, ...]:
    """Return the GPUs of the names.

    Raises:
        NodeError: if the GPUs are not known.
        InputError: if the node does not have one.
    """
    if state.problem:
        raise NodeError("the GPUs can't be asked", cause=state.problem, hint=AGAIN)
    if not names:
        raise InputError.of("gpus", list(names), "at least one GPU, or all")
    by_index = {gpu.number: gpu for gpu in state.gpus if gpu.number is not None}
    chosen: t.Set[str] = set()
    for name in names:
        named = state.gpus if name == ALL else gpus_named(name, state.gpus, by_index)
        if not named and name != ALL:
            known = ", ".join(f"{gpu} at {gpu.pci}" for gpu in state.gpus)
            expected = "all, or the UUID, PCI address, serial number or index of a GPU of this node"
            raise InputError.of("gpus", name, f"{expected}: {known or 'it has none'}")
        chosen.update(gpu.uuid for gpu in named)
    return tuple(gpu for gpu in state.gpus if gpu.uuid in chosen)


# --- what a GPU shows ---


def reset_reasons(state: ResetState, gpu: ResetGpu) -> t.List[Reason]:
    """Return the reasons of a GPU's signs, and of modes that wait for its reset; XIDs say what was, not what is."""
    waiting = [Reason(Action.RESET, f"its {mode} changes by a reset") for mode in gpu.waiting]
    return [*gpu_reasons(gpu.signs, state.node, NO_XIDS), *waiting]


def needs_reset(state: ResetState, gpu: ResetGpu) -> bool:
    """Return whether anything asks for a reset."""
    return any(reason.action.resets for reason in reset_reasons(state, gpu))


def refuse_hopeless(state: ResetState, gpu: ResetGpu) -> None:
    """Refuse a GPU that no reset brings back. NodeError says what does."""
    for reason in reset_reasons(state, gpu):
        if reason.action is Action.REBOOT:
            hint = f"{REBOOT}; if it stays so, replace the GPU"
            raise NodeError(f"{gpu}: a reset does not bring it back", cause=reason.text, hint=hint)
    if gpu.signs.signs.recovery == BUS_RESET:
        raise NodeError(
            f"{gpu}: the driver asks for a reset of its bus",
            cause="this release resets GPUs alone",
            hint=f"nvidia-smi --gpu-reset bus -i {gpu.uuid} on a platform that has it, or {REBOOT}",
        )


def fault_after_reset(state: ResetState, gpu: t.Optional[ResetGpu]) -> str:
    """Return the fault of a GPU that its reset should have mended, empty if there is none."""
    if gpu is None:
        return state.problem or "the driver does not have it any more"
    for reason in reset_reasons(state, gpu):
        if reason.action.resets or reason.action is Action.REBOOT:
            return reason.text
    return ""


def warnings(state: ResetState, gpu: ResetGpu) -> t.List[str]:
    """Return what a reset of this GPU does not mend."""
    return [
        f"gpu_reset: {gpu}: {reason.text}. Next step: {REPLACE}"
        for reason in reset_reasons(state, gpu)
        if reason.action in (Action.REPLACE, Action.ASK)
    ]


# --- what a reset takes ---


def stops_fabric(state: ResetState) -> bool:
    """Return whether the fabric manager makes way where all GPUs are reset with their switches.

    From NVLink 5 on it stays: GPUs are reset once it runs.

    Raises:
        NodeError: if it runs, and not as the service that could be stopped.
    """
    node = state.node
    if not node.fabric_manager or (node.nvlink or 0) >= NVLINK5:
        return False
    if not state.fabric_unit:
        raise NodeError(
            "the fabric manager does not run as its service",
            cause="all GPUs and NVSwitches are reset while it is stopped, and only services are stopped here",
            hint="stop it where it runs, such as in the container of the driver, and run again",
        )
    return True


def group_gpus(
    state: ResetState, gpus: t.Sequence[ResetGpu], *, together: bool
) -> t.List[ResetGroup]:
    """Return the GPUs by the commands that reset them.

    Raises:
        NodeError: if the machine does not let one be reset so.
    """
    groups: t.List[t.Dict[str, ResetGpu]] = []
    for gpu in gpus:
        group = {member.uuid: member for member in (gpu, *_companions(state, gpu))}
        for member in group.values():  # also of those that go with it
            refuse_hopeless(state, member)
        companions = [member for member in group.values() if member not in gpus]
        if companions and not together:
            raise NodeError(
                f"{gpu} can't be reset without others",
                cause=f"with it go {', '.join(map(str, companions))}",
                hint="set together to true where these may be reset too, or name them in gpus",
                together=[member.uuid for member in companions],
            )
        for known in [known for known in groups if known.keys() & group.keys()]:
            group.update(known)
            groups.remove(known)
        groups.append(group)
    uuids = {uuid for group in groups for uuid in group}
    if together and state.node.nvswitch and uuids == {gpu.uuid for gpu in state.gpus}:
        return [ResetGroup(state.gpus, whole=True)]
    return [ResetGroup(tuple(gpu for gpu in state.gpus if gpu.uuid in group)) for group in groups]


def _companions(state: ResetState, gpu: ResetGpu) -> t.List[ResetGpu]:
    """Return the GPUs that are reset with one.

    Raises:
        NodeError: if it can't be reset here.
    """
    rule = reset_rule(state.node, gpu.signs)
    if rule.action is Action.REBOOT:
        raise NodeError(f"{gpu} can't be reset", cause=rule.text, hint=REBOOT)
    if rule.action is Action.ASK:
        hint = f"{REBOOT}, or have who knows this machine reset it by nvidia-smi --gpu-reset"
        raise NodeError(f"{gpu} is not reset", cause=rule.text, hint=hint)
    if rule.action is not Action.RESET_ALL:
        return []
    peers = gpu.signs.peers or ()
    return [member for member in state.gpus if state.node.nvswitch or member.uuid in peers]


def refuse_used(
    gpus: t.Sequence[ResetGpu], change: str, advice: str, waited: t.Optional[int]
) -> None:
    """Refuse a change of GPUs that somebody has, such as ``reset``.

    Raises:
        Busy: if one has users, which it names.
    """
    held = [gpu for gpu in gpus if gpu.users]
    after = "" if waited is None else f"after {waited} s "
    users = [user for gpu in held for user in gpu.users]
    problem = f"{after}{', '.join(map(str, held))} can't be {change}"
    refuse_if_busy(problem, users, hint=advice or DRAIN)


def end_servers(gpus: t.Iterable[ResetGpu]) -> t.List[Step]:
    """Return what ends the MPS servers of GPUs, which have no clients."""
    return [
        Step(
            END_SERVER,
            f"{gpu}: end the MPS server {server.pid}, which has no clients",
            {"gpu": gpu.uuid, **server._asdict()},
        )
        for gpu in gpus
        for server in gpu.servers
    ]


def steps(groups: t.Sequence[ResetGroup]) -> t.List[Step]:
    """Return what resets these GPUs."""
    result = []
    for group in groups:
        result += end_servers(group.gpus)
        names = ", ".join(map(str, group.gpus))
        switches = ", with the NVSwitches" if group.whole else ""
        params = {"gpus": [gpu.uuid for gpu in group.gpus], "whole": group.whole}
        result.append(Step(RESET, f"reset {names}{switches}", params, (IDLE_GPU,)))
    return result


def described(state: ResetState, gpus: t.Sequence[ResetGpu]) -> t.Dict[str, t.Any]:
    """Return GPUs as a diff shows them."""
    return {
        str(gpu): {
            "asks_for": [reason.text for reason in reset_reasons(state, gpu) if reason.action],
            **gpu.settings,
        }
        for gpu in gpus
    }


def after(before: t.Mapping[str, t.Any], gpus: t.Sequence[ResetGpu]) -> t.Dict[str, t.Any]:
    """Return the same with these GPUs reset; what a reset may lose is known once it was made, but MIG instances go."""
    names = set(map(str, gpus))
    return {
        name: {**row, "asks_for": [], "mig_devices": []} if name in names else row
        for name, row in before.items()
    }
