# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The verdict on the GPUs of a node and on the node: the strongest action that signs ask for on this kind of machine.

First the action that each sign asks for by itself, where the driver's own word goes before the list of XIDs; then what
a reset takes on this kind of machine; then the verdict, which is stronger each time that a repair did not help. What a
reset takes is from nvidia-smi's manual and the Fabric Manager's user guide: a machine that no rule covers is not reset,
and a person is asked.
"""

from __future__ import annotations

import typing as t

from .._base.gpu import Fabric, FaultSigns
from .signs import Action, Answer, GpuSigns, NodeSigns, SXid, Virtual, Xid
from .xids.table import KNOWN, Row, Table


class Reason(t.NamedTuple):
    """A sign of a fault in words, and the least action that it asks for."""

    action: Action
    text: str


class GpuVerdict(t.NamedTuple):
    """The action on a GPU, and its reasons, the strongest first.

    ``together`` are the other GPUs that a reset of several takes, none where it takes all of the node.
    """

    uuid: str
    action: Action
    reasons: t.Tuple[Reason, ...] = ()
    together: t.Tuple[str, ...] = ()


class NodeVerdict(t.NamedTuple):
    """The action on a node as a whole, with its reasons, and the verdict on each of its GPUs, in their order."""

    action: Action
    reasons: t.Tuple[Reason, ...]
    gpus: t.Tuple[GpuVerdict, ...]


# --- the action that each sign asks for ---

# nvmlDeviceGpuRecoveryAction_t; 0 to 3 from branch 565 on, 4 from 570, 5 from 595, 6 and 7 from 615.
RECOVERIES: t.Mapping[int, t.Tuple[Action, str]] = {
    0: (Action.NONE, "nothing"),
    1: (Action.RESET, "a reset of the GPU"),
    2: (Action.REBOOT, "a reboot of the node"),
    3: (Action.DRAIN_THEN_RESET, "an end of what uses other GPUs through it, or else a reset"),
    4: (Action.DRAIN_THEN_RESET, "no new work, and a reset when what runs has ended"),
    5: (Action.RECOVER_FABRIC, "a recovery of the IMEX domain"),
    6: (Action.RESET, "a reset of the GPU's bus"),
    7: (Action.REBOOT, "a reboot of the system"),
}
SPEAKS = (
    565  # the first branch whose driver tells its recovery action; those before can ask for a reset
)
ANSWERS: t.Mapping[Answer, t.Tuple[Action, str]] = {
    Answer.RESET_REQUIRED: (Action.RESET, "NVML says that the GPU needs a reset"),
    Answer.LOST: (Action.REBOOT, "NVML says that the GPU is lost"),
    Answer.NEVER: (Action.REBOOT, "the driver does not answer for the GPU"),
}
FABRIC_STATES: t.Mapping[int, str] = {
    0: "not supported",
    1: "not started",
    2: "in progress",
    3: "completed",
}
# Fields of nvmlGpuFabricInfo_t's healthMask by their first bit, with the meaning of 1, which is true.
FABRIC_FLAGS: t.Mapping[int, str] = {
    0: "the bandwidth of its NVLinks is degraded",
    4: "its routes are unhealthy",
    6: "it recovers from timeouts of accesses",
}
CONFIGURATION = 8  # where the field of incorrect configurations begins
CONFIGURED = (0, 1)  # the values for: not supported, and none
CONFIGURATIONS: t.Mapping[int, str] = {
    2: "the system's GUID is wrong",
    3: "the chassis' serial number is wrong",
    4: "it is in no partition",
    5: "it has too few NVLinks",
    6: "its firmware does not fit",
    7: "its location is wrong",
    8: "its state is wrong",
}


def gpu_reasons(gpu: GpuSigns, node: NodeSigns, table: Table) -> t.List[Reason]:
    """Return a reason for each sign of a GPU, with the least action that the sign asks for."""
    recovery = gpu.signs.recovery
    reasons = [] if gpu.present else [Reason(Action.REBOOT, "the GPU is not on its PCI bus")]
    if gpu.answer in ANSWERS:
        reasons.append(Reason(*ANSWERS[gpu.answer]))
    if recovery is not None:
        action, text = RECOVERIES.get(recovery, (Action.ASK, "what this version does not know"))
        text = f"the driver asks for {text} (recovery action {recovery})"
        reasons.append(Reason(action, text))
    reasons += _memory_reasons(gpu.signs)
    if gpu.signs.fabric is not None:
        reasons += _fabric_reasons(gpu.signs.fabric, node.fabric_manager)
    speaks = recovery in RECOVERIES and not 0 < node.branch < SPEAKS
    branch = node.branch if speaks else None
    return reasons + [_xid_reason(xid, table.xids.get(xid.number), branch) for xid in gpu.xids]


def _memory_reasons(signs: FaultSigns) -> t.Iterator[Reason]:
    if signs.rows and signs.rows.failed:
        yield Reason(Action.REPLACE, "a memory row could not be replaced")
    if signs.sram_exceeded:
        yield Reason(Action.REPLACE, "its SRAM has more errors than NVIDIA allows")
    if signs.unrepairable:
        yield Reason(Action.REPLACE, "it has memory that can't be repaired")
    if signs.rows and signs.rows.pending:
        # Work is safe until then, new work too: the page is no longer allocated. XID 63, which fences nothing either,
        # reports the same. A driver with a recovery action asks for the reset by it where too few rows remain.
        yield Reason(Action.NONE, "a memory row is replaced at the next reset")
    if signs.repair_pending:
        # Where the driver has a recovery action, it counts this as well.
        action = Action.NONE if signs.recovery in RECOVERIES else Action.DRAIN_THEN_RESET
        yield Reason(action, "channels or TPCs are repaired at the next reset")


def _fabric_reasons(fabric: Fabric, manager: t.Optional[bool]) -> t.Iterator[Reason]:
    state = FABRIC_STATES.get(fabric.state)
    if state is None:
        yield Reason(Action.ASK, f"its fabric is in state {fabric.state}, which is not known")
    elif fabric.state in (1, 2):
        # With partitions, this is how a GPU waits for one.
        action = Action.RECOVER_FABRIC if manager is False else Action.NONE
        yield Reason(action, f"its fabric's registration is {state}")
    elif fabric.state == 3 and fabric.status:
        yield Reason(Action.RECOVER_FABRIC, f"its fabric reports NVML's error {fabric.status}")
    if fabric.state != 3:
        return
    for bit, text in FABRIC_FLAGS.items():
        if fabric.health >> bit & 3 == 1:
            yield Reason(Action.RECOVER_FABRIC, f"its fabric: {text}")
    configuration = fabric.health >> CONFIGURATION & 0xF
    if configuration not in CONFIGURED:
        text = CONFIGURATIONS.get(configuration, f"configuration error {configuration}")
        yield Reason(Action.ASK, f"its fabric: {text}")


def _xid_reason(xid: Xid, row: t.Optional[Row], branch: t.Optional[int]) -> Reason:
    """Return the reason for an XID; ``branch`` is that of a driver that tells its recovery action."""
    meaning = f" ({row.meaning})" if row and row.meaning else ""
    times = f", {xid.times} times" if xid.times > 1 else ""
    instances = f", of {', '.join(xid.instances)}" if xid.instances else ""
    text = f"XID {xid.number}{meaning}{times}{instances}"
    covered = f"{text}, of which the driver's recovery action says what to do"
    if row is None:
        unlisted = Reason(Action.ASK, f"{text}, which the list does not have")
        return unlisted if branch is None else Reason(Action.NONE, covered)
    repeated = 0 < row.times <= xid.times
    action = max(row.action, row.then if repeated else Action.NONE)
    if action.acts and branch is not None and 0 < row.driver <= branch:
        return Reason(min(row.action, Action.RESTART_APPLICATION), covered)
    return Reason(action, text)


def _sxid_reason(sxid: SXid) -> Reason:
    times = f", {sxid.times} times" if sxid.times > 1 else ""
    text = f"SXID {sxid.number} of an NVSwitch{times}"
    if not sxid.fatal:
        return Reason(Action.NONE, f"{text}, not fatal")
    if sxid.trunk is None:
        return Reason(Action.ASK, f"{text}, fatal, and it is not known whether of a trunk port")
    port = "a trunk port: all GPUs are reset with the fabric manager stopped"
    if not sxid.trunk:
        port = "an access port: all GPUs are reset"
    return Reason(Action.RESET_ALL, f"{text}, fatal at {port}")


# --- what a reset takes on each kind of machine ---

BEFORE_AMPERE = frozenset({"kepler", "maxwell", "pascal", "volta", "turing"})
SINCE_HOPPER = frozenset({"hopper", "blackwell"})  # of those that are behind NVSwitches
WITHOUT_SWITCHES = frozenset({"ampere", "ada"}) | SINCE_HOPPER


class ResetRule(t.NamedTuple):
    """A kind of machine, and the action that a reset of a GPU comes to there; ``NONE`` leaves it a reset."""

    holds: t.Callable[[NodeSigns, GpuSigns], bool]
    action: Action
    text: str


def _switched(node: NodeSigns, gpu: GpuSigns, *architectures: str) -> bool:
    return bool(node.nvswitch) and gpu.architecture in architectures


# The first that holds counts.
RULES: t.Tuple[ResetRule, ...] = (
    ResetRule(
        lambda node, gpu: node.virtual is Virtual.VGPU,
        Action.ASK,
        "a vGPU guest can't reset its GPU: who runs its host can",
    ),
    ResetRule(
        lambda node, gpu: node.virtual is Virtual.PASSTHROUGH,
        Action.REBOOT,
        "a GPU that is passed through is reset with its virtual machine",
    ),
    ResetRule(
        lambda node, gpu: node.virtual is None,
        Action.ASK,
        "it is not known whether the node is a virtual machine, so how its GPUs are reset is not either",
    ),
    ResetRule(
        lambda node, gpu: _switched(node, gpu, *SINCE_HOPPER),
        Action.NONE,
        "behind NVSwitches Hopper and later are reset one by one",
    ),
    ResetRule(
        lambda node, gpu: _switched(node, gpu, "ampere") and node.fabric_manager is True,
        Action.NONE,
        "the fabric manager runs, so an A100 behind NVSwitches is reset by itself",
    ),
    ResetRule(
        lambda node, gpu: _switched(node, gpu, "ampere") and node.fabric_manager is False,
        Action.RESET_ALL,
        "the fabric manager does not run, so the A100s behind NVSwitches are reset together",
    ),
    ResetRule(
        lambda node, gpu: _switched(node, gpu, *BEFORE_AMPERE),
        Action.RESET_ALL,
        "before Ampere, the GPUs behind NVSwitches are reset together",
    ),
    ResetRule(
        lambda node, gpu: node.nvswitch is False and gpu.architecture in WITHOUT_SWITCHES,
        Action.NONE,
        "from Ampere on, GPUs without NVSwitches are reset one by one",
    ),
    ResetRule(
        lambda node, gpu: (
            node.nvswitch is False and gpu.architecture in BEFORE_AMPERE and gpu.peers == ()
        ),
        Action.NONE,
        "no NVLink connects it with another GPU",
    ),
    ResetRule(
        lambda node, gpu: (
            node.nvswitch is False and gpu.architecture in BEFORE_AMPERE and bool(gpu.peers)
        ),
        Action.RESET_ALL,
        "before Ampere, GPUs that NVLink connects are reset together",
    ),
)


def reset_rule(node: NodeSigns, gpu: GpuSigns) -> ResetRule:
    """Return the rule for a GPU's reset; one that asks a person if no rule covers the machine."""
    for rule in RULES:
        if rule.holds(node, gpu):
            return rule
    kind = f"{gpu.architecture} GPU" if gpu.architecture else "GPU of this architecture"
    unknown = [
        *(["whether there are NVSwitches"] if node.nvswitch is None else []),
        *(["whether the fabric manager runs"] if _switched(node, gpu, "ampere") else []),
        *(["which GPUs NVLink connects it with"] if gpu.architecture in BEFORE_AMPERE else []),
    ]
    suffix = f"; not known: {', '.join(unknown)}" if unknown else ""
    text = f"no rule says how a {kind} of this machine is reset{suffix}"
    return ResetRule(lambda _node, _gpu: True, Action.ASK, text)


# --- the verdict ---

WINDOW = 24 * 3600.0  # seconds in which a fault that is back is the same one
LADDER = (Action.REBOOT, Action.REPLACE)  # after the first attempt, and after each later one
# Actions that concern more than the GPU whose sign asks for them.
WIDE = frozenset({Action.RECOVER_FABRIC, Action.RESET_ALL, Action.REBOOT})
NVLINK5 = 5


def judge_node(
    node: NodeSigns,
    gpus: t.Sequence[GpuSigns],
    current_time: float,
    table: Table = KNOWN,
    window: float = WINDOW,
) -> NodeVerdict:
    """Return the verdict. Each of a GPU's reasons asks for no more than its action.

    The node's action is that of the signs that concern more than one GPU.

    Args:
        current_time: Seconds since 1970, as the times of the signs.
        table: The table of XIDs, by default the collection's own.
        window: Seconds in which earlier attempts count.
    """
    verdicts, reasons = [], []
    for gpu in gpus:
        verdict, exhausted = _judge_tried_gpu(node, gpu, table, current_time, window)
        verdicts.append(verdict)
        reasons += [
            Reason(reason.action, f"GPU {verdict.uuid}: {reason.text}")
            for reason in verdict.reasons
            if reason.action in WIDE and not exhausted
        ]
    own = [_sxid_reason(sxid) for sxid in node.sxids]
    if node.fabric_restarted and node.nvlink == NVLINK5:
        text = "the fabric manager was started again, after which GPUs with NVLink 5 are reset"
        own.append(Reason(Action.RESET_ALL, text))
    if node.virtual is not Virtual.NONE and any(reason.action.resets for reason in own):
        rule = reset_rule(node, GpuSigns(""))
        own.append(Reason(rule.action, rule.text))
    action, ordered = _strongest_first([*reasons, *own])
    return NodeVerdict(action, ordered, tuple(verdicts))


def judge_gpu(node: NodeSigns, gpu: GpuSigns, table: Table = KNOWN) -> GpuVerdict:
    """Return the verdict on a GPU by its signs alone, regardless of the kind of machine and of earlier attempts."""
    return GpuVerdict(gpu.uuid, *_strongest_first(gpu_reasons(gpu, node, table)))


def _judge_tried_gpu(
    node: NodeSigns, gpu: GpuSigns, table: Table, current_time: float, window: float
) -> t.Tuple[GpuVerdict, bool]:
    """Return the verdict on a GPU, and whether all that could bring it back was tried already."""
    reasons = gpu_reasons(gpu, node, table)
    together: t.Tuple[str, ...] = ()
    if any(reason.action.resets for reason in reasons):
        rule = reset_rule(node, gpu)
        reasons.append(Reason(rule.action, rule.text))
        together = (gpu.peers or ()) if rule.action is Action.RESET_ALL else ()
    attempts = sum(
        attempt.at > current_time - window and _is_repair(attempt.action)
        for attempt in gpu.attempts
    )
    repairs = any(_is_repair(reason.action) for reason in reasons)
    if attempts and repairs:
        text = (
            f"resets or reboots in the last {window / 3600:g} hours that did not help: {attempts}"
        )
        reasons.append(Reason(LADDER[min(attempts, len(LADDER)) - 1], text))
    verdict = GpuVerdict(gpu.uuid, *_strongest_first(reasons), together)
    return verdict, repairs and attempts >= len(LADDER)


def _is_repair(action: Action) -> bool:
    return action.resets or action is Action.REBOOT


def _strongest_first(reasons: t.Iterable[Reason]) -> t.Tuple[Action, t.Tuple[Reason, ...]]:
    """Return the strongest action, and the reasons from the strongest on, in one order however they came."""
    ordered = sorted(set(reasons), key=lambda reason: (-reason.action, reason.text))
    return ordered[0].action if ordered else Action.NONE, tuple(ordered)
