# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is done about GPUs and their node, fault by fault, and what holds of every combination."""

from __future__ import annotations

import dataclasses
from typing import Any

import pynvml
import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Fabric, FaultSigns, Rows
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import (
    STEPS,
    Action,
    Answer,
    Attempt,
    GpuSigns,
    NodeSigns,
    SXid,
    Virtual,
    Xid,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.verdict import (
    RECOVERIES,
    WINDOW,
    GpuVerdict,
    NodeVerdict,
    judge_gpu,
    judge_node,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.xids import table
from ansible_collections.gpu.node.plugins.module_utils._repair.xids.table import parse
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0
HGX = NodeSigns(580, Virtual.NONE, nvswitch=True, nvlink=4, fabric_manager=True)
A, B = "GPU-a", "GPU-b"


def gpu(*xids: int, uuid: str = A, **more: Any) -> GpuSigns:
    told = {key: more.pop(key) for key in list(more) if key in FaultSigns.__dataclass_fields__}
    heard = tuple(map(Xid, xids))
    kind = {"architecture": "hopper", "xids": heard, **more}
    return GpuSigns(uuid, signs=FaultSigns(**told), **kind)


def verdict(*gpus: GpuSigns, node: NodeSigns = HGX) -> NodeVerdict:
    return judge_node(node, gpus, NOW)


def of(one: GpuSigns, node: NodeSigns = HGX) -> GpuVerdict:
    return verdict(one, node=node).gpus[0]


def tried(*actions: Action, ago: float = 60.0) -> tuple[Attempt, ...]:
    return tuple(Attempt(one, NOW - ago) for one in actions)


def test_a_gpu_of_which_nothing_is_wrong_is_left_alone() -> None:
    quiet = FaultSigns(0, Rows(3, 1, False, False), False, False, False, Fabric(3))
    for signs in (FaultSigns(), quiet):
        found = of(GpuSigns(A, "hopper", signs=signs))
        assert (found.action, found.action.fences) == (Action.NONE, False)


@pytest.mark.parametrize("xids", [(45,), (63,), (94,), (13, 31, 43), (45, 63, 94), (154,)])
def test_faults_of_applications_and_information_fence_no_gpu(xids: tuple[int, ...]) -> None:
    assert not of(gpu(*xids)).action.fences


@pytest.mark.parametrize(
    ("one", "action"),
    [
        (gpu(48), Action.RESET),
        (gpu(45, 48, 63), Action.RESET),
        (gpu(119), Action.RESET),
        (gpu(79), Action.REBOOT),
        (gpu(54), Action.ASK),
        (gpu(present=False), Action.REBOOT),
        (gpu(answer=Answer.LOST), Action.REBOOT),
        (gpu(answer=Answer.NEVER), Action.REBOOT),
        (gpu(answer=Answer.RESET_REQUIRED), Action.RESET),
        (gpu(rows=Rows(0, 1, True, False)), Action.NONE),
        (gpu(63, rows=Rows(0, 1, True, False), recovery=0), Action.NONE),
        (gpu(repair_pending=True), Action.DRAIN_THEN_RESET),
        (gpu(rows=Rows(0, 9, False, True)), Action.REPLACE),
        (gpu(sram_exceeded=True), Action.REPLACE),
        (gpu(unrepairable=True), Action.REPLACE),
        (gpu(fabric=Fabric(3, status=9)), Action.RECOVER_FABRIC),
        (gpu(fabric=Fabric(3, health=1 << 4)), Action.RECOVER_FABRIC),
        (gpu(fabric=Fabric(3, health=2 | 2 << 4 | 1 << 8)), Action.NONE),
        (gpu(fabric=Fabric(3, health=5 << 8)), Action.ASK),
        (gpu(fabric=Fabric(2)), Action.NONE),
        (gpu(fabric=Fabric(9)), Action.ASK),
    ],
)
def test_each_sign_asks_for_its_own(one: GpuSigns, action: Action) -> None:
    assert of(one).action is action, of(one).reasons


def test_a_fabric_that_does_not_begin_is_recovered_where_its_manager_does_not_run() -> None:
    stopped = dataclasses.replace(HGX, fabric_manager=False)
    assert verdict(gpu(fabric=Fabric(1)), node=stopped).action is Action.RECOVER_FABRIC


# nvmlDeviceGpuRecoveryAction_t, by its names in nvml.h.
ASKED = {
    "NONE": Action.NONE,
    "GPU_RESET": Action.RESET,
    "NODE_REBOOT": Action.REBOOT,
    "DRAIN_P2P": Action.DRAIN_THEN_RESET,
    "DRAIN_AND_RESET": Action.DRAIN_THEN_RESET,
    "RECOVER_IMEX_DOMAIN": Action.RECOVER_FABRIC,
    "BUS_RESET": Action.RESET,
    "SYSTEM_REBOOT": Action.REBOOT,
}


@pytest.mark.parametrize("name", ASKED)
def test_what_the_driver_asks_for_is_done_and_said(name: str) -> None:
    number = getattr(pynvml, f"NVML_GPU_RECOVERY_ACTION_{name}")
    found = of(gpu(recovery=number))
    assert found.action is ASKED[name]
    assert f"(recovery action {number})" in found.reasons[0].text
    assert len(ASKED) == len(RECOVERIES)


@pytest.mark.parametrize("number", [-1, 8, 255, 1 << 31])
def test_a_recovery_action_that_nobody_knows_asks_a_person(number: int) -> None:
    found = of(gpu(recovery=number))
    assert found.action is Action.ASK
    assert str(number) in found.reasons[0].text


def test_work_goes_on_beside_what_concerns_the_fabric_alone() -> None:
    for one in (gpu(recovery=5), gpu(fabric=Fabric(3, status=9))):
        found = of(one).action
        assert (found.acts, found.fences) == (True, False), one
    assert set(STEPS) == set(Action)


def test_what_the_signs_ask_for_is_what_the_machine_may_allow_no_more_of() -> None:
    guest = NodeSigns(580, Virtual.VGPU)
    one = gpu(119, attempts=tried(Action.RESET))
    assert (judge_gpu(guest, one).action, of(one, guest).action) == (Action.RESET, Action.ASK)
    assert set(judge_gpu(guest, one).reasons) < set(of(one, guest).reasons)


def test_a_driver_that_can_ask_for_resets_alone_covers_no_xid() -> None:
    for branch, action in ((0, Action.NONE), (550, Action.ASK), (565, Action.NONE)):
        node = dataclasses.replace(HGX, branch=branch)
        assert of(gpu(4711, recovery=0), node).action is action, branch


def test_an_xid_that_nobody_knows_asks_a_person_unless_the_driver_knows() -> None:
    assert of(gpu(4711)).action is Action.ASK
    assert of(gpu(4711, recovery=0)).action is Action.NONE
    assert of(gpu(4711, recovery=1)).action is Action.RESET
    assert of(gpu(4711, recovery=8)).action is Action.ASK


def test_what_the_driver_says_of_an_xid_that_it_covers_goes_before_the_list() -> None:
    for number in (48, 74, 95, 144, 149, 155):
        assert of(gpu(number)).action.fences
        assert not of(gpu(number, recovery=0)).action.fences
        assert of(gpu(number, recovery=4)).action is Action.DRAIN_THEN_RESET
    for branch, action in ((565, Action.RESET), (570, Action.RESTART_APPLICATION)):
        node = dataclasses.replace(HGX, branch=branch)
        assert of(gpu(109, recovery=0), node).action is action
    assert of(gpu(119, recovery=0)).action is Action.RESET  # no driver's recovery action covers it
    assert of(gpu(xids=(Xid(94, times=9),), recovery=0)).action is Action.RESTART_APPLICATION


def test_xid_79_is_never_answered_by_a_reset() -> None:
    for recovery in (None, 0, 1, 2):
        assert of(gpu(79, recovery=recovery)).action is Action.REBOOT
    again = of(gpu(79, attempts=tried(Action.REBOOT, Action.REBOOT)))
    assert again.action is Action.REPLACE


def test_a_fault_that_a_reset_did_not_end_is_a_reboot_and_then_a_replacement() -> None:
    reset = (Action.RESET,)
    assert of(gpu(48)).action is Action.RESET
    again = of(gpu(48, attempts=tried(*reset)))
    assert again.action is Action.REBOOT
    assert again.reasons[0].text == ("resets or reboots in the last 24 hours that did not help: 1")
    assert of(gpu(48, attempts=tried(*reset, Action.REBOOT))).action is Action.REPLACE
    assert of(gpu(48, attempts=tried(*reset, *reset))).action is Action.REPLACE
    assert of(gpu(48, attempts=tried(*reset, *reset, ago=WINDOW))).action is Action.RESET
    assert of(gpu(attempts=tried(*reset, *reset))).action is Action.NONE
    assert of(gpu(48, attempts=tried(Action.RESTART_APPLICATION))).action is Action.RESET


def test_what_a_gpu_copes_with_too_often_is_a_fault() -> None:
    assert not of(gpu(xids=(Xid(94, times=3),))).action.fences
    assert of(gpu(xids=(Xid(94, times=4),))).action is Action.DRAIN_THEN_RESET


def test_a_users_list_never_makes_more_of_an_xid_count_for_less() -> None:
    own = {"as_of": "2026-10-01", "xids": {94: {"action": "reset", "times": 2, "then": "none"}}}
    found = judge_node(HGX, [gpu(xids=(Xid(94, times=5),))], NOW, parse(own))
    assert found.gpus[0].action is Action.RESET


def test_what_was_heard_twice_is_said_once() -> None:
    assert [one.text.split(" (")[0] for one in of(gpu(48, 48)).reasons][0:2] == [
        "XID 48",
        "behind NVSwitches Hopper and later are reset one by one",
    ]


def test_the_node_is_rebooted_for_a_gpu_and_not_for_one_that_is_replaced() -> None:
    found = verdict(gpu(79), gpu(uuid=B))
    assert (found.action, found.gpus[1].action) == (Action.REBOOT, Action.NONE)
    assert found.reasons[0].text.startswith(f"GPU {A}: XID 79 (")
    spent = gpu(79, attempts=tried(Action.REBOOT, Action.REBOOT))
    assert verdict(spent, gpu(uuid=B)).action is Action.NONE
    assert verdict(gpu(48), gpu(uuid=B)).action is Action.NONE


def test_fatal_sxids_reset_all_gpus_and_others_none() -> None:
    def of_switch(sxid: SXid, virtual: Virtual = Virtual.NONE) -> NodeVerdict:
        return verdict(gpu(), node=dataclasses.replace(HGX, virtual=virtual, sxids=(sxid,)))

    trunk = of_switch(SXid(24007, fatal=True, trunk=True))
    assert trunk.action is Action.RESET_ALL
    assert "with the fabric manager stopped" in trunk.reasons[0].text
    assert of_switch(SXid(20034, fatal=True, trunk=False)).action is Action.RESET_ALL
    assert of_switch(SXid(20034, fatal=True)).action is Action.ASK
    assert of_switch(SXid(12028, fatal=False)).action is Action.NONE
    assert of_switch(SXid(24007, True, True), Virtual.VGPU).action is Action.ASK


def test_nvlink_5_is_reset_after_its_fabric_manager_was_started_again() -> None:
    for nvlink, action in ((4, Action.NONE), (5, Action.RESET_ALL)):
        node = dataclasses.replace(HGX, nvlink=nvlink, fabric_restarted=True)
        assert verdict(gpu(architecture="blackwell"), node=node).action is action


# --- what holds of every combination ---

TABLE = parse()
NUMBERS = st.sampled_from([*TABLE.xids, 1, 61, 167, 4711])
MAYBE = st.none() | st.booleans()
ROWS = st.none() | st.builds(Rows, st.just(0), st.just(1), st.booleans(), st.booleans())
FABRICS = st.none() | st.builds(
    Fabric, st.integers(0, 5), st.sampled_from([0, 9]), st.integers(0, 0xFFFF)
)
ATTEMPTS = st.lists(st.builds(Attempt, st.sampled_from(Action), st.floats(0, 2 * NOW)), max_size=4)
GPUS = st.builds(
    GpuSigns,
    st.just(A),
    st.sampled_from(["", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "rubin"]),
    present=st.booleans(),
    answer=st.sampled_from(Answer),
    signs=st.builds(FaultSigns, st.none() | st.integers(-1, 9), ROWS, MAYBE, MAYBE, MAYBE, FABRICS),
    xids=st.lists(st.builds(Xid, NUMBERS, times=st.integers(1, 5)), max_size=4).map(tuple),
    attempts=ATTEMPTS.map(tuple),
    peers=st.sampled_from([None, (), (B,)]),
)
NODES = st.builds(
    NodeSigns,
    st.sampled_from([0, 550, 565, 580]),
    st.none() | st.sampled_from(Virtual),
    MAYBE,
    st.none() | st.integers(0, 6),
    MAYBE,
    st.booleans(),
    st.lists(st.builds(SXid, st.integers(10000, 30000), st.booleans(), MAYBE), max_size=2).map(
        tuple
    ),
)


@given(NODES, st.lists(GPUS, max_size=3))
def test_every_combination_has_one_answer_that_says_why(
    node: NodeSigns, gpus: list[GpuSigns]
) -> None:
    found = verdict(*gpus, node=node)
    assert [one.uuid for one in found.gpus] == [one.uuid for one in gpus]
    for one in (found, *found.gpus):
        assert one.action is max((reason.action for reason in one.reasons), default=Action.NONE)
        assert list(one.reasons) == sorted(one.reasons, key=lambda it: (-it.action, it.text))
        assert all(reason.text for reason in one.reasons)


@given(NODES, GPUS)
def test_no_answer_is_weaker_than_the_drivers(node: NodeSigns, one: GpuSigns) -> None:
    judge_gpu = dict(enumerate(ASKED.values())).get(one.signs.recovery or 0, Action.ASK)
    found = verdict(one, node=node)
    assert found.gpus[0].action >= judge_gpu
    if judge_gpu is Action.REBOOT and found.gpus[0].action is not Action.REPLACE:
        assert found.action >= judge_gpu


def worse(one: GpuSigns) -> list[GpuSigns]:
    """Return the same GPU with one fault more, in each way."""

    def signs(**more: Any) -> GpuSigns:
        return dataclasses.replace(one, signs=dataclasses.replace(one.signs, **more))

    rows = one.signs.rows or Rows(0, 0, False, False)
    more = [
        *(dataclasses.replace(one, xids=(*one.xids, Xid(number))) for number in (31, 48, 79, 4711)),
        dataclasses.replace(one, xids=tuple(it._replace(times=it.times + 9) for it in one.xids)),
        dataclasses.replace(one, present=False),
        signs(rows=rows._replace(pending=True)),
        signs(rows=rows._replace(failed=True)),
        signs(sram_exceeded=True),
        signs(repair_pending=True),
        signs(unrepairable=True),
    ]
    if one.answer is Answer.YES:
        more += [dataclasses.replace(one, answer=answer) for answer in Answer]
    if one.signs.recovery == 0:
        more += [signs(recovery=number) for number in range(1, 10)]
    if one.signs.fabric is None:
        more += [signs(fabric=Fabric(state, 9, 0x5555)) for state in range(5)]
    return more


@given(NODES, GPUS)
def test_one_fault_more_never_weakens_an_answer(node: NodeSigns, one: GpuSigns) -> None:
    before = verdict(one, node=node)
    for after in worse(one):
        found = verdict(after, node=node)
        assert found.gpus[0].action >= before.gpus[0].action, after
        if len(one.attempts) < 2:
            assert found.action >= before.action, after
    again = dataclasses.replace(one, attempts=(*one.attempts, Attempt(Action.RESET, NOW)))
    assert verdict(again, node=node).gpus[0].action >= before.gpus[0].action
    switch = dataclasses.replace(node, sxids=(*node.sxids, SXid(24007, True, True)))
    assert verdict(one, node=switch).action >= before.action
    alone = verdict(dataclasses.replace(one, uuid=B), one, node=node)
    assert alone.gpus[1] == before.gpus[0]


@given(NODES, GPUS, st.randoms())
def test_the_order_of_what_was_heard_changes_nothing(
    node: NodeSigns, one: GpuSigns, random: Any
) -> None:
    xids, attempts = list(one.xids), list(one.attempts)
    random.shuffle(xids)
    random.shuffle(attempts)
    mixed = dataclasses.replace(one, xids=tuple(xids), attempts=tuple(attempts))
    assert verdict(mixed, node=node) == verdict(one, node=node)


def test_a_verdict_reads_no_table_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device plugin asks at each look, for each GPU."""

    def chosen(*_args: object) -> None:
        pytest.fail("the table is read again")

    monkeypatch.setattr(table, "chosen", chosen)
    assert judge_gpu(NodeSigns(), GpuSigns("", xids=(Xid(79),))).action is Action.REBOOT
    assert judge_node(NodeSigns(), [GpuSigns("")], 0.0).action is Action.NONE
