# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What each sign of a fault asks for, by itself. The driver's own word goes before the list of XIDs."""

from __future__ import annotations

import typing as t

from .._base.gpu import Fabric, FaultSigns
from .actions import Action
from .state import Answer, ObservedGpu, ObservedNode, Reason, SXid, Xid
from .xids.table import Row, Table

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
SPEAKS = 565  # the branch from which on a driver says by itself what it wants; those before can ask for a reset
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
# Fields of nvmlGpuFabricInfo_t's healthMask: where they begin, and what they say when they are 1, which is true.
FABRIC_FLAGS: t.Mapping[int, str] = {
    0: "the bandwidth of its NVLinks is degraded",
    4: "its routes are unhealthy",
    6: "it recovers from timeouts of accesses",
}
CONFIGURATION = 8  # where the field of incorrect configurations begins
CONFIGURED = (0, 1)  # of which these are: not supported, and none
CONFIGURATIONS: t.Mapping[int, str] = {
    2: "the system's GUID is wrong",
    3: "the chassis' serial number is wrong",
    4: "it is in no partition",
    5: "it has too few NVLinks",
    6: "its firmware does not fit",
    7: "its location is wrong",
    8: "its state is wrong",
}


def of_gpu(gpu: ObservedGpu, node: ObservedNode, table: Table) -> t.List[Reason]:
    """Return what was found of a GPU, each with the least that it asks for."""
    found = [*_presence(gpu), *_recovery(gpu.signs.recovery), *_memory(gpu.signs)]
    if gpu.signs.fabric is not None:
        found += _fabric(gpu.signs.fabric, node.fabric_manager)
    speaks = gpu.signs.recovery in RECOVERIES and not 0 < node.branch < SPEAKS
    branch = node.branch if speaks else None
    return found + [_xid(one, table.xids.get(one.number), branch) for one in gpu.xids]


def of_switches(sxids: t.Iterable[SXid]) -> t.List[Reason]:
    """Return what was found of NVSwitches."""
    return [_sxid(one) for one in sxids]


def _presence(gpu: ObservedGpu) -> t.Iterator[Reason]:
    if not gpu.present:
        yield Reason(Action.REBOOT, "the GPU is not on its PCI bus")
    if gpu.answer in ANSWERS:
        yield Reason(*ANSWERS[gpu.answer])


def _recovery(number: t.Optional[int]) -> t.Iterator[Reason]:
    if number is None:
        return
    action, text = RECOVERIES.get(number, (Action.ASK, "what this version does not know"))
    yield Reason(action, f"the driver asks for {text} (recovery action {number})")


def _memory(signs: FaultSigns) -> t.Iterator[Reason]:
    if signs.rows and signs.rows.failed:
        yield Reason(Action.REPLACE, "a memory row could not be replaced")
    if signs.sram_exceeded:
        yield Reason(Action.REPLACE, "its SRAM has more errors than NVIDIA allows")
    if signs.unrepairable:
        yield Reason(Action.REPLACE, "it has memory that can't be repaired")
    if signs.rows and signs.rows.pending:
        # Work is safe until then, new work too: nobody is given the page any more. XID 63, which fences nothing either,
        # tells of the same. A driver with a recovery action asks for the reset by it where less is left than should be.
        yield Reason(Action.NONE, "a memory row is replaced at the next reset")
    if signs.repair_pending:
        # Where the driver has a recovery action, it counts this as well.
        waits = Action.NONE if signs.recovery in RECOVERIES else Action.DRAIN_THEN_RESET
        yield Reason(waits, "channels or TPCs are repaired at the next reset")


def _fabric(fabric: Fabric, manager: t.Optional[bool]) -> t.Iterator[Reason]:
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
    for at, text in FABRIC_FLAGS.items():
        if fabric.health >> at & 3 == 1:
            yield Reason(Action.RECOVER_FABRIC, f"its fabric: {text}")
    configuration = fabric.health >> CONFIGURATION & 0xF
    if configuration not in CONFIGURED:
        text = CONFIGURATIONS.get(configuration, f"configuration error {configuration}")
        yield Reason(Action.ASK, f"its fabric: {text}")


def _xid(xid: Xid, row: t.Optional[Row], branch: t.Optional[int]) -> Reason:
    """Return what an XID asks for; ``branch`` is that of a driver that says by itself what it wants."""
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


def _sxid(sxid: SXid) -> Reason:
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
