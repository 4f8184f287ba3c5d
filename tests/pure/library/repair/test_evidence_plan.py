# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Evidence of faults: which GPUs it is about, what its archive is named, and which archives go."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._generated.gpu_evidence import SPEC
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    NO_CASES,
    RELEASED,
    RepairCase,
    RepairCases,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.evidence import smi
from ansible_collections.gpu.node.plugins.module_utils._repair.evidence.plan import (
    decide,
    plan,
    select_gpus,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.evidence.state import (
    Archive,
    EvidenceGpu,
    EvidenceOptions,
    EvidenceState,
    join_gpus,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
BOOT = "8c1f0e52-70f6-4c19-a1fd-2f2d1f2b8a11"
A, B, LOST = "GPU-a", "GPU-b", "GPU-lost"
AT_A, AT_B, AT_LOST = "0000:18:00.0", "0000:2a:00.0", "0000:3b:00.0"
TOLD = (
    EvidenceGpu(A, AT_A, {"model": "NVIDIA H100", "serial": "1650000000001"}),
    EvidenceGpu(B, AT_B, {"model": "NVIDIA H100", "serial": "1650000000002"}),
)
CASE = RepairCase("1650000000003", AT_LOST, Action.REBOOT, ("XID 79",), NOW - 7200)


def params(**given: Any) -> dict[str, Any]:
    spec = SPEC["argument_spec"]
    return {**{name: one.get("default") for name, one in spec.items()}, **given}


def observed(
    *archives: Archive,
    cases: RepairCases = NO_CASES,
    bus: tuple[str, ...] = (AT_A, AT_B),
    told: tuple[EvidenceGpu, ...] = TOLD,
    named: frozenset[str] = frozenset(),
) -> EvidenceState:
    silent = frozenset(bus) - {one.pci for one in told}
    return EvidenceState(join_gpus(told, bus, cases), silent, cases, "", BOOT, archives, named)


def archive(case: str = A, stage: str = "before", made: str = "20270101T000000Z") -> Archive:
    return Archive(case, stage, BOOT[:8], made)


def lost() -> EvidenceState:
    return observed(cases=RepairCases(None, {LOST: CASE}), bus=(AT_A, AT_B, AT_LOST))


@pytest.mark.parametrize(
    "name",
    [A, AT_A, AT_A.upper(), "00000000:18:00.0", "18:00.0", "1650000000001", "0", f" {A} "],
)
def test_a_gpu_is_named_by_whatever_it_is_known_by(name: str) -> None:
    assert select_gpus([name, name], observed()) == TOLD[:1]


@pytest.mark.parametrize("name", ["2", "GPU-c", "0000:99:00.0", "1650000000009", "", "-1", "all"])
def test_a_gpu_that_the_node_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"^gpus: .* is not valid: expected .*GPU-a, GPU-b"):
        select_gpus([name], observed())


@pytest.mark.parametrize("name", [LOST, AT_LOST, "1650000000003", "2"])
def test_a_gpu_that_does_not_answer_is_named_by_its_case(name: str) -> None:
    (found,) = select_gpus([name], lost())
    assert (found.uuid, found.pci, found.serial) == (LOST, AT_LOST, CASE.serial)


def test_a_gpu_that_fell_off_the_bus_is_known_by_its_case() -> None:
    cases = RepairCases(None, {LOST: CASE})
    assert [one.uuid for one in select_gpus([], observed(cases=cases))] == [A, B, LOST]
    closed = RepairCases(None, {LOST: CASE._replace(stage=RELEASED)})
    assert select_gpus([], observed(cases=closed)) == TOLD
    assert select_gpus([LOST], observed(cases=closed))[0].serial == CASE.serial


def test_a_uuid_is_believed_where_a_gpu_does_not_answer() -> None:
    quiet = observed(bus=(AT_A, AT_B, AT_LOST))
    assert select_gpus(["GPU-x"], quiet) == (EvidenceGpu("GPU-x"),)
    assert select_gpus(["GPU-x"], observed(bus=(), told=())) == (EvidenceGpu("GPU-x"),)
    with pytest.raises(InputError):
        select_gpus(["GPU x/../y"], quiet)


@pytest.mark.parametrize(
    ("given", "cases", "name"),
    [
        ({"gpus": [A]}, {}, A),
        ({}, {}, "node"),
        ({"gpus": [A]}, {A: CASE}, f"20270115T060000Z-{A}"),
        ({}, {A: CASE}, f"20270115T060000Z-{A}"),
        ({"gpus": [A]}, {A: CASE._replace(stage=RELEASED)}, A),
        (
            {"gpus": [A], "stage": "rma"},
            {A: CASE._replace(stage=RELEASED)},
            f"20270115T060000Z-{A}",
        ),
        ({"gpus": [A], "case": "INC-7"}, {A: CASE}, "INC-7"),
    ],
)
def test_an_archive_is_named_after_the_case(
    given: dict[str, Any], cases: dict[str, RepairCase], name: str
) -> None:
    decision = decide(
        observed(cases=RepairCases(None, cases)), EvidenceOptions.from_params(params(**given)), NOW
    )
    stage = given.get("stage", "before")
    assert decision.archive.file == f"{name}.{stage}.8c1f0e52.20270115T080000Z.tar.gz"
    assert Archive.from_file(decision.archive.file) == decision.archive
    assert decision.archive.at == "2027-01-15T08:00:00Z"


def test_a_second_archive_of_the_same_case_stage_and_boot_is_not_made() -> None:
    wanted = EvidenceOptions.from_params(params(gpus=[A]))
    there = archive()
    found = observed(there)
    decision = decide(found, wanted, NOW)
    assert (decision.archive, decision.there) == (there, True)
    assert plan(found, wanted, decision).steps == ()
    for other in (
        archive(case=B),
        archive(stage="after"),
        there._replace(boot="00000000"),
    ):
        assert not decide(observed(other), wanted, NOW).there
    forced = wanted._replace(force=True)
    assert [one.action for one in plan(found, forced, decide(found, forced, NOW)).steps] == [
        "collect"
    ]


def test_the_oldest_archives_make_room_but_for_those_of_open_cases() -> None:
    old = [archive(f"c{one}", made=f"2027010{one}T000000Z") for one in range(1, 6)]
    named = frozenset({f"/var/lib/gpu-node/evidence/{old[0].file}"})
    found, wanted = (
        observed(*old, named=named),
        EvidenceOptions.from_params(params(gpus=[A], keep=3)),
    )
    made = plan(found, wanted, decide(found, wanted, NOW))
    assert [one.action for one in made.steps] == ["collect", "remove"]
    assert made.steps[1].params["files"] == [one.file for one in old[1:4]]
    assert len(made.after["archives"]) == 3
    enough = EvidenceOptions.from_params(params(gpus=[A], keep=6))
    assert len(plan(found, enough, decide(found, enough, NOW)).steps) == 1


def test_the_log_begins_a_day_before_the_oldest_open_case() -> None:
    cases = RepairCases(None, {A: CASE, B: CASE._replace(since=1.0, stage=RELEASED)})
    assert (
        decide(observed(cases=cases), EvidenceOptions.from_params(params()), NOW).since
        == NOW - 7200 - 86400
    )
    assert decide(observed(), EvidenceOptions.from_params(params()), NOW).since == NOW - 86400
    asked = EvidenceOptions.from_params(params(kernel_log_since="2027-01-15T07:00:00Z"))
    assert decide(observed(), asked, NOW).since == NOW - 3600


def test_an_rma_is_about_one_gpu_and_warns_where_its_serial_number_is_not_known() -> None:
    for gpus in ([], [A, B]):
        with pytest.raises(InputError, match="expected one GPU with stage rma"):
            decide(observed(), EvidenceOptions.from_params(params(gpus=gpus, stage="rma")), NOW)
    quiet = observed(bus=(AT_A, AT_B, AT_LOST))
    wanted = EvidenceOptions.from_params(params(gpus=[AT_LOST], stage="rma"))
    (warning,) = plan(quiet, wanted, decide(quiet, wanted, NOW)).warnings
    assert warning == f"the serial number of GPU {AT_LOST} is not known: look for it on the board"


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("path", "evidence", "the absolute path"),
        ("path", "/", "the absolute path"),
        ("case", "../../etc", "at most 100 letters"),
        ("case", "-x", "at most 100 letters"),
        ("case", "x" * 101, "at most 100 letters"),
        ("keep", 0, "a number of 1 or more"),
        ("bug_report_timeout", -1, "a number of 1 or more"),
        ("kernel_log_since", "yesterday", "a time in UTC such as"),
        ("kernel_log_since", "2027-02-30T00:00:00Z", "a time in UTC such as"),
    ],
)
def test_what_can_t_be_meant_is_refused(option: str, value: Any, expected: str) -> None:
    with pytest.raises(InputError, match=f"^{option}: .*expected {expected}"):
        EvidenceOptions.from_params(params(**{option: value}))


@given(st.text(max_size=60))
def test_only_names_of_ours_are_archives(name: str) -> None:
    assert Archive.from_file(name) is None
    assert Archive.from_file(f"{name}\n") is None


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda one: one.decode("latin-1")))
def test_an_answer_of_another_shape_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        smi.parse_gpus(f"Unable to determine the device handle {text}")


def test_facts_of_a_board_are_short_and_steer_no_terminal() -> None:
    text = f"<l><gpu id='00000000:18:00.0'><uuid>GPU-a</uuid><serial>1\u009b2{'9' * 999}</serial></gpu></l>"
    (found,) = smi.parse_gpus(text)
    assert (found.uuid, found.pci) == (A, AT_A)
    assert found.serial.startswith("1\\x9b29")
    assert len(found.serial) < 200
