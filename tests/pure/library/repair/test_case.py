# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The cases of a node: how a repair goes on, what counts as tried, who may repair, and the file that keeps it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.text.strict import bounded
from ansible_collections.gpu.node.plugins.module_utils._repair import case as repair_case
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    Boot,
    RepairCase,
    RepairCases,
    RepairLease,
    cases_as_data,
    dump_cases,
    parse_cases,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action, Attempt
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0
BOOT, LATER = Boot("b-1", "1"), Boot("b-2", "1")
A, B = "GPU-a", "GPU-b"
FAULT = RepairCase("1650", "0000:0f:00.0", Action.RESET, ("XID 48",), NOW, BOOT)
FINE = FAULT._replace(verdict=Action.NONE, reasons=())

texts = st.text(max_size=8).map(bounded)
times = st.integers(0, 4_000_000_000).map(float)
actions = st.sampled_from(Action)
words = st.lists(texts, max_size=4).map(tuple)
boots = st.builds(Boot, texts, texts)
stages = st.sampled_from((*repair_case.STAGES, repair_case.FAILED))
cases_of_gpus = st.builds(
    RepairCase,
    serial=texts,
    pci=texts,
    verdict=actions,
    reasons=words,
    since=times,
    boot=boots,
    stage=stages,
    stopped=words,
    attempts=st.lists(st.builds(Attempt, actions, times, texts), max_size=4).map(tuple),
    evidence=texts,
)
leases = st.builds(RepairLease, texts.filter(bool), times, texts)
books = st.builds(
    RepairCases,
    st.none() | leases,
    st.dictionaries(texts.filter(bool), cases_of_gpus, max_size=4),
)


def begun(found: RepairCase = FAULT, cases: RepairCases = repair_case.NO_CASES) -> RepairCases:
    return repair_case.begin_case(cases, A, found)


def at(stage: str, **more: Any) -> RepairCases:
    return RepairCases(None, {A: FAULT._replace(stage=stage, **more)})


@given(books)
def test_what_was_written_is_read_again(cases: RepairCases) -> None:
    assert parse_cases(dump_cases(cases)) == cases


@given(books, st.data())
def test_a_file_with_a_key_too_many_or_too_few_or_of_another_kind_is_damaged(
    cases: RepairCases, data: st.DataObject
) -> None:
    told = cases_as_data(cases)
    inner = [told, *([told["lease"]] if told["lease"] else []), *told["gpus"].values()]
    table = data.draw(st.sampled_from(inner))
    key = data.draw(st.sampled_from(sorted(table)))
    how = data.draw(st.sampled_from(("more", "less", "other")))
    if how == "more":
        table["more"] = 1
    elif how == "less":
        del table[key]
    else:
        table[key] = 1.5
    with pytest.raises(NodeError, match=r"repair\.json is damaged.*Next step: move"):
        parse_cases(json.dumps(told))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"version": 2, "lease": null, "gpus": {}}',
        '{"version": true, "lease": null, "gpus": {}}',
        '{"version": 1, "lease": {"holder": "", "since": "2026-11-24T06:00:00Z", "boot_id": ""}, "gpus": {}}',
        '{"version": 1, "lease": {"holder": "a", "since": "2026-11-24T6:00:00Z", "boot_id": ""}, "gpus": {}}',
        json.dumps({"version": 1, "lease": None, "gpus": {str(n): {} for n in range(200)}}),
        "[" * 3000,
    ],
)
def test_a_file_that_is_not_ours_is_damaged(text: str) -> None:
    with pytest.raises(NodeError, match=r"repair\.json is damaged"):
        parse_cases(text)


def test_a_node_without_a_file_has_no_cases() -> None:
    assert parse_cases(None) == repair_case.NO_CASES


def test_a_repair_that_was_cut_off_goes_on_where_it_was() -> None:
    stopped = at(repair_case.STOPPED, stopped=("nvidia-dcgm.service",), evidence="/var/x.tar.gz")
    again = repair_case.begin_case(stopped, A, FAULT._replace(since=NOW + 60)).gpus[A]
    assert again == stopped.gpus[A]


def test_a_fault_that_is_there_after_a_reset_begins_anew_and_keeps_what_was_tried() -> None:
    tried = (Attempt(Action.RESET, NOW, "done"),)
    for stage in (
        repair_case.RESET,
        repair_case.RESTORED,
        repair_case.PROVED,
        repair_case.FAILED,
        repair_case.RELEASED,
    ):
        found = repair_case.begin_case(
            at(stage, attempts=tried), A, FAULT._replace(verdict=Action.REBOOT)
        )
        case = found.gpus[A]
        assert (case.stage, case.verdict, case.attempts) == (
            repair_case.PLANNED,
            Action.REBOOT,
            tried,
        )


def test_a_gpu_that_is_fine_after_its_reset_stays_at_its_stage_and_keeps_its_reasons() -> None:
    found = repair_case.begin_case(at(repair_case.RESET), A, FINE).gpus[A]
    assert (found.stage, found.verdict, found.reasons) == (
        repair_case.RESET,
        Action.RESET,
        ("XID 48",),
    )


@given(stages, stages)
def test_only_a_gpu_that_was_proved_is_released(before: str, after: str) -> None:
    try:
        found = repair_case.advance_case(at(before), A, after).gpus[A]
    except ValueError:
        return
    assert found.stage == after
    if after == repair_case.RELEASED:
        assert before == repair_case.PROVED
    if after == repair_case.PROVED:
        assert before in (*repair_case.STAGES[:6], repair_case.PROVED)


def test_each_repair_can_fail_and_go_on() -> None:
    for stage in repair_case.STAGES[:-1]:
        failed = repair_case.advance_case(at(stage), A, repair_case.FAILED)
        assert (
            repair_case.advance_case(failed, A, repair_case.RESTORED).gpus[A].stage
            == repair_case.RESTORED
        )


def test_services_are_known_in_the_order_in_which_they_were_stopped_until_all_are_back() -> None:
    cases = repair_case.advance_case(begun(), A, repair_case.STOPPED, stopped=["dcgm"])
    cases = repair_case.advance_case(cases, A, repair_case.STOPPED, stopped=["exporter", "dcgm"])
    assert cases.gpus[A].stopped == ("dcgm", "exporter")
    assert repair_case.advance_case(cases, A, repair_case.FAILED).gpus[A].stopped == (
        "dcgm",
        "exporter",
    )
    assert repair_case.advance_case(cases, A, repair_case.RESTORED).gpus[A].stopped == ()


def test_an_attempt_counts_once_its_result_is_known() -> None:
    cases = repair_case.add_attempt(begun(), A, Action.RESET, NOW + 1.5)
    cases = repair_case.set_result(cases, A, "done")
    assert cases.gpus[A].counted_attempts(BOOT) == (Attempt(Action.RESET, NOW + 1, "done"),)


def test_an_attempt_that_was_cut_off_is_made_again_once_and_counts_from_then_on() -> None:
    cut_off = repair_case.add_attempt(begun(), A, Action.RESET, NOW)
    assert cut_off.gpus[A].counted_attempts(BOOT) == ()
    twice = repair_case.add_attempt(cut_off, A, Action.RESET, NOW + 60)
    assert twice.gpus[A].counted_attempts(BOOT) == (Attempt(Action.RESET, NOW),)


def test_an_attempt_after_which_the_node_or_its_driver_started_again_counts() -> None:
    cut_off = repair_case.add_attempt(begun(), A, Action.REBOOT, NOW)
    assert cut_off.gpus[A].counted_attempts(LATER) == (Attempt(Action.REBOOT, NOW),)
    seen = begun(FAULT._replace(boot=LATER), cut_off)
    attempt = Attempt(Action.REBOOT, NOW, repair_case.STARTED_AGAIN)
    assert seen.gpus[A].counted_attempts(LATER) == (attempt,)


def test_the_oldest_closed_cases_make_room_and_open_ones_never_do() -> None:
    closed = {
        f"GPU-{n}": FAULT._replace(since=NOW + n, stage=repair_case.RELEASED) for n in range(64)
    }
    opened = {f"GPU-o{n}": FAULT for n in range(64)}
    found = begun(cases=RepairCases(None, {**closed, **opened})).gpus
    assert len(found) == repair_case.MOST_CASES
    assert "GPU-0" not in found
    assert set(opened) <= set(found)
    full = {f"GPU-o{n}": FAULT for n in range(repair_case.MOST_CASES)}
    with pytest.raises(NodeError, match="takes no more"):
        begun(cases=RepairCases(None, full))


@given(cases_of_gpus, st.lists(actions, max_size=40))
def test_whatever_happens_can_be_written_and_read(found: RepairCase, tried: list[Action]) -> None:
    long = "\x1b" + "x" * 600
    cases = begun(found._replace(serial=long, reasons=(long,) * 99))
    for action in tried:
        cases = repair_case.set_result(
            repair_case.add_attempt(cases, A, action, NOW + 0.5), A, long
        )
    cases, _refused = repair_case.take_lease(cases, long, NOW + 0.5, "b")
    assert parse_cases(dump_cases(cases)) == cases
    assert len(cases.gpus[A].attempts) <= repair_case.MOST_ATTEMPTS


def test_one_run_at_a_time_has_the_node() -> None:
    cases, refused = repair_case.take_lease(repair_case.NO_CASES, "ann", NOW, "b-1")
    assert (cases.lease, refused) == (RepairLease("ann", NOW, "b-1"), "")
    again, refused = repair_case.take_lease(cases, "bob", NOW + 60, "b-1")
    assert again == cases
    assert refused == "ann repairs the node since 2027-01-15T08:00:00Z"
    assert repair_case.take_lease(cases, "ann", NOW + 60, "b-1")[0].lease == RepairLease(
        "ann", NOW + 60, "b-1"
    )
    assert repair_case.take_lease(cases, "bob", NOW + 60, "b-1", instead_of="ann")[1] == ""
    assert repair_case.release_lease(cases, "bob") == cases
    assert repair_case.release_lease(cases, "ann") == repair_case.NO_CASES


def test_a_lease_ends_by_its_age_and_by_a_reboot_that_is_not_the_repairs_own() -> None:
    cases, _refused = repair_case.take_lease(begun(), "ann", NOW, "b-1")
    assert repair_case.lease_refusal(cases, NOW + repair_case.LEASE_SECONDS, "b-1")
    assert not repair_case.lease_refusal(cases, NOW + repair_case.LEASE_SECONDS + 1, "b-1")
    assert not repair_case.lease_refusal(cases, NOW + 60, "b-2")
    rebooting = repair_case.add_attempt(cases, A, Action.REBOOT, NOW)
    assert repair_case.lease_refusal(rebooting, NOW + 60, "b-2")
    assert not repair_case.lease_refusal(rebooting, NOW + repair_case.LEASE_SECONDS + 1, "b-2")


def test_a_lease_from_the_future_holds_and_says_that_the_clock_was_set_back() -> None:
    cases, _refused = repair_case.take_lease(repair_case.NO_CASES, "ann", NOW, "b-1")
    assert "clock was set back" in repair_case.lease_refusal(cases, NOW - 3600, "b-2")
    assert repair_case.lease_refusal(cases, NOW - 10, "b-1").endswith("Z")


@given(books, times, texts, texts.filter(bool), texts.filter(bool))
def test_of_two_runs_at_once_one_gets_the_node(
    cases: RepairCases, now: float, boot_id: str, one: str, other: str
) -> None:
    first, refused = repair_case.take_lease(cases, one, now, boot_id)
    if refused:
        assert first == cases
        assert refused == repair_case.lease_refusal(cases, now, boot_id)
    else:
        assert bool(repair_case.take_lease(first, other, now, boot_id)[1]) == (one != other)
