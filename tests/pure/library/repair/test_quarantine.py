# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Setting GPUs and nodes aside: which GPU is meant, what is refused, what is warned of, and that it is done once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import TIMEOUT, NvmlError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._node import gpu_record
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import (
    OPERATOR,
    PATH,
    REPAIR,
    Quarantine,
    Quarantined,
    Seen,
    dump,
    parse,
)
from ansible_collections.gpu.node.plugins.module_utils._repair import case
from ansible_collections.gpu.node.plugins.module_utils._repair.quarantine.capability import (
    PLUGIN,
    QuarantineCapability,
)

from tests.fakes.library.fakes import FakeHost

NOW = 1_800_000_000.0
A, B, C = (f"GPU-{one * 8}-0000-0000-0000-000000000000" for one in "abc")
FIRST, SECOND, THIRD = "0000:0f:00.0", "0000:3b:00.0", "0000:87:00.0"
TWO = {0: Seen(A, "1650", FIRST), 1: Seen(B, "1651", SECOND)}
WHY = {"reason": "XID 79 twice", "ticket": "OPS-1"}
OURS = Quarantined(OPERATOR, "a fan", "", NOW - 60, "1650", FIRST)


class Host(FakeHost):
    """A machine whose file of what is in quarantine is the one that counts."""

    @property
    def found(self) -> Quarantine:
        return parse(self.files.get(PATH))


def host(found: Quarantine | None = None, **files: str) -> Host:
    return Host({**({PATH: dump(found)} if found else {}), **files})


def capability(
    on: FakeHost, there: Mapping[int, Seen] | NvmlError = TWO, **params: Any
) -> QuarantineCapability:
    def look() -> Mapping[int, Seen]:
        if isinstance(there, NvmlError):
            raise there
        return there

    told = {"state": "present", "gpus": [], "node": False, "by": OPERATOR, **WHY, **params}
    return QuarantineCapability(on, told, look, lambda: NOW)


def run(
    on: FakeHost, there: Mapping[int, Seen] | NvmlError = TWO, **params: Any
) -> tuple[Plan, dict[str, Any]]:
    """Run as the module does; a second run has nothing to do. Returns the first plan and what is reported."""
    ours = capability(on, there, **params)
    first = ours.plan(ours.observe())
    for step in first.steps:
        ours.apply(step)
    state = ours.observe()
    left = ours.plan(state)
    assert not left.steps
    assert left.after == first.after
    return first, ours.result(state, left)


def said(plan: Plan) -> list[str]:
    return [step.summary for step in plan.steps]


@pytest.mark.parametrize(
    "name",
    ["1", B, B.lower(), SECOND, "3b:00.0", "3B:00", "00000000:3B:00.0", "1651", " 1 "],
)
def test_each_name_of_a_gpu_means_it(name: str) -> None:
    on = host()
    found, answer = run(on, gpus=[name])
    assert said(found) == [f"set aside GPU 1 ({B}): XID 79 twice (ticket OPS-1)"]
    assert answer["gpus"] == [B]
    assert on.found == Quarantine(
        {B: Quarantined(OPERATOR, "XID 79 twice", "OPS-1", NOW, "1651", SECOND)}
    )
    assert answer["quarantine"] == json.loads(on.files[PATH])


def test_nothing_is_left_of_what_was_released() -> None:
    on = host(Quarantine({A: OURS}))
    run(on, state="absent", gpus=["0"])
    assert PATH not in on.files


def test_all_gpus_and_the_node_are_set_aside_and_released() -> None:
    on = host()
    run(on, gpus=["all"], node=True)
    assert set(on.found.gpus) == {A, B}
    assert on.found.node == Quarantined(OPERATOR, "XID 79 twice", "OPS-1", NOW)
    found, answer = run(on, state="absent", gpus=["all"], node=True, reason="")
    assert len(found.steps) == 3
    assert said(found)[0].startswith(f"release GPU 0 ({A}), in quarantine since ")
    assert on.found == Quarantine()
    assert answer["gpus"] == [A, B]


def test_a_serial_number_means_all_gpus_of_its_board() -> None:
    on = host()
    run(on, {0: TWO[0], 1: TWO[1]._replace(serial="1650")}, gpus=["1650"])
    assert set(on.found.gpus) == {A, B}


def test_the_node_leaves_entries_of_its_gpus_alone() -> None:
    on = host(Quarantine({A: OURS}))
    run(on, node=True)
    run(on, state="absent", node=True)
    assert on.found == Quarantine({A: OURS})


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputError) as refused:
        run(host(), gpus=["7"])
    assert str(refused.value) == (
        f"gpus: '7' is not valid: expected a GPU of the node, which are GPU 0 ({A}): {FIRST}, serial number 1650, "
        f"GPU 1 ({B}): {SECOND}, serial number 1651"
    )


def test_what_has_many_gpus_names_some_of_them() -> None:
    many = {at: Seen(f"GPU-{at}", "", f"0000:{at:02x}:00.0") for at in range(40)}
    with pytest.raises(InputError, match=r"0000:0f:00.0 and 24 more"):
        run(host(), many, gpus=["nothing"])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "gpus: [] is not valid: expected GPUs, such as [0], or node: true"),
        ({"gpus": ["0"], "reason": " "}, "reason: ' ' is not valid: expected why it is set aside"),
        ({"gpus": ["0"], "reason": "x" * 501}, "a line of at most 500 printable characters"),
        ({"gpus": ["0"], "ticket": "\x1b[1m"}, "ticket: '\\x1b[1m' is not valid"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_is_read(
    params: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as refused:
        capability(host(), **params)
    assert words in str(refused.value)


def test_a_reason_of_several_lines_becomes_one() -> None:
    on = host()
    run(on, gpus=["0"], reason="XID 79\n  twice\n", ticket="")
    assert on.found.gpus[A].why == "XID 79 twice"


def test_a_repair_changes_and_ends_nothing_of_an_operator_and_says_so() -> None:
    on = host(Quarantine({A: OURS}, OURS._replace(serial="", pci="")))
    for state in ("present", "absent"):
        found, answer = run(on, state=state, gpus=["0"], node=True, by=REPAIR)
        assert not found.steps
        assert f"GPU 0 ({A}) stays as an operator has set it aside: a fan" in found.warnings
        assert "the node stays as an operator has set it aside: a fan" in found.warnings
        assert answer["quarantine"]["gpus"][A]["reason"] == "a fan"


def test_an_operator_takes_over_what_a_repair_has_set_aside_since_when_it_did() -> None:
    on = host(Quarantine({A: OURS._replace(author=REPAIR)}))
    found, _answer = run(on, gpus=["0"])
    assert said(found) == [f"keep aside GPU 0 ({A}): XID 79 twice (ticket OPS-1)"]
    assert on.found.gpus[A] == Quarantined(
        OPERATOR, "XID 79 twice", "OPS-1", OURS.since, "1650", FIRST
    )


HUNG = NvmlError(TIMEOUT, "looking at the GPUs")
RECORD = gpu_record.dump([FIRST, SECOND], "", TWO.values())


@pytest.mark.parametrize("name", [B, SECOND, "1651"])
@pytest.mark.parametrize("there", [HUNG, {}, {0: TWO[0]}])
def test_a_gpu_that_does_not_answer_is_known_by_what_was_recorded(
    name: str, there: Mapping[int, Seen] | NvmlError
) -> None:
    by_case = case.dump_cases(case.RepairCases(None, {B: case.RepairCase("1651", SECOND)}))
    for files in ({gpu_record.PATH: RECORD}, {case.PATH: by_case}):
        on = host(**files)
        found, _answer = run(on, there, gpus=[name])
        assert said(found) == [f"set aside {B}: XID 79 twice (ticket OPS-1)"]
        assert on.found.gpus[B][4:] == ("1651", SECOND)


def test_an_index_is_not_known_of_a_driver_that_does_not_answer() -> None:
    with pytest.raises(InputError, match=r"'1' is not valid.*NVML does not answer.*timed out"):
        run(host(**{gpu_record.PATH: RECORD}), HUNG, gpus=["1"])


def test_all_are_those_that_the_node_has_and_not_those_that_were_taken_out() -> None:
    gone = case.dump_cases(case.RepairCases(None, {C: case.RepairCase("1652", THIRD)}))
    on = host(**{gpu_record.PATH: RECORD, case.PATH: gone})
    run(on, {0: TWO[0]}, gpus=["all"])
    assert set(on.found.gpus) == {A, B}


def test_a_record_of_another_gpu_in_a_slot_is_not_taken_for_the_one_that_is_there() -> None:
    new = {0: TWO[0], 1: Seen(C, "1652", SECOND)}
    on = host(**{gpu_record.PATH: RECORD})
    run(on, new, gpus=[SECOND])
    assert set(on.found.gpus) == {C}
    with pytest.raises(InputError, match="is not valid"):
        run(on, new, gpus=["1651"])


def test_one_that_nothing_tells_the_uuid_of_is_set_aside_by_it() -> None:
    bare = json.dumps({"machine": "", "gpus": [FIRST, SECOND]})
    on = host(**{gpu_record.PATH: bare})
    with pytest.raises(InputError) as refused:
        run(on, {0: TWO[0]}, gpus=[SECOND])
    assert refused.value.hint.startswith(f"of what is at {SECOND} no UUID is recorded: give the ")
    run(on, {0: TWO[0]}, gpus=[C])
    assert on.found.gpus[C].pci == SECOND
    with pytest.raises(InputError):
        run(host(), gpus=[C])


def test_one_that_the_device_plugin_still_knows_can_be_named() -> None:
    told = json.dumps({"gpu_uuids": [A, B, 7, ""]})
    on = host(**{PLUGIN: told})
    run(on, {0: TWO[0]}, gpus=[B])
    assert set(on.found.gpus) == {B}


def test_one_that_is_gone_is_released_and_a_second_time_nothing_is_done() -> None:
    on = host(Quarantine({C: OURS._replace(serial="1652", pci=THIRD)}))
    for name in ("1652", THIRD, C):
        again = host(on.found)
        run(again, state="absent", gpus=[name])
        assert again.found == Quarantine()
    found, _answer = run(host(), state="absent", gpus=[C])
    assert not found.steps
    with pytest.raises(InputError, match="GPU of the node"):
        run(host(), state="absent", gpus=["1652"])


def test_a_gpu_in_another_slot_and_one_in_its_place_are_warned_of() -> None:
    moved = host(Quarantine({A: OURS}))
    found, _answer = run(moved, {0: TWO[0]._replace(pci=THIRD)}, gpus=["0"])
    assert not [
        one for one in found.warnings if "not the slot's" in one
    ]  # said anew, with where it is
    found, _answer = run(host(Quarantine({A: OURS})), {0: Seen(C, "1652", FIRST)}, node=True)
    assert "and is not in quarantine" in found.warnings[0]


def test_a_damaged_file_is_refused_and_left_as_it_is() -> None:
    on = host(**{PATH: "{"})
    with pytest.raises(NodeError, match=r"quarantine.json is damaged.*Next step: restore it"):
        run(on, gpus=["0"])
    assert on.files[PATH] == "{"


@pytest.mark.parametrize("path", [gpu_record.PATH, case.PATH])
def test_a_damaged_record_is_told_and_in_nobodys_way(path: str) -> None:
    on = host(**{path: "{"})
    found, _answer = run(on, gpus=["0"])
    assert A in on.found.gpus
    assert [one for one in found.warnings if f"{path} is damaged" in one]


def test_an_operator_who_is_faster_than_a_repair_has_the_last_word() -> None:
    on = host()
    ours = capability(on, gpus=["0"], by=REPAIR)
    plan = ours.plan(ours.observe())
    run(on, gpus=["0"])
    for step in plan.steps:
        ours.apply(step)
    assert on.found.gpus[A].author == OPERATOR


def test_a_clock_that_was_set_back_changes_nothing() -> None:
    later = Quarantine({A: OURS._replace(since=NOW + 86400)})
    on = host(later)
    found, _answer = run(on, gpus=["0"], reason="a fan", ticket="")
    assert not found.steps
    assert on.found == later


def test_a_record_has_what_nvml_said_and_one_of_an_earlier_release_has_not() -> None:
    assert gpu_record.load(RECORD, "") == (FIRST, SECOND)
    assert gpu_record.identities(RECORD, "") == (TWO[0], TWO[1])
    assert gpu_record.identities(RECORD, "another") == ()
    assert gpu_record.identities(gpu_record.dump([FIRST], ""), "") == ()
    assert gpu_record.identities('{"machine": "", "gpus": ["x"], "devices": [1]}', "") == ()
    assert gpu_record.identities('{"machine": "", "gpus": ["x"], "devices": {"x": 1}}', "") == ()
