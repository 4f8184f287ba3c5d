# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The record of accepted GPUs: what a pass is good for, and how its file is read."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept import record
from ansible_collections.gpu.node.plugins.module_utils._accept.plan import parse_cpus
from ansible_collections.gpu.node.plugins.module_utils._accept.record import (
    ANY_LEVEL,
    DAY,
    MOST_GPUS,
    Acceptance,
    Identity,
    RequiredLevel,
    dump_record,
    parse_record,
    reason_to_test,
    standing_faults,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.result import GpuResult
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile import Thrown, inputs

TESTED_AT = 1_700_000_000.0
IDENTITY = Identity("580.159.04", "96.00.99", "G520.0200", "692-2G520", "1652", "0000:19:00.0")
PASS = Acceptance("passed", IDENTITY, TESTED_AT, "boot-1", {"memory_gb_per_s": 2900.0})
TOOLS = {"dcgmi": "4.6.0", "nvbandwidth": "v0.8"}
STANDARD = PASS._replace(level="standard", dcgm_level=2, tools=TOOLS)
TEXT = dump_record(
    {"GPU-1": PASS, "GPU-2": PASS._replace(verdict="failed", faults=("XID 79",)), "GPU-3": STANDARD}
)


def reason(
    acceptance: Acceptance | None = PASS,
    identity: Identity = IDENTITY,
    *,
    repaired_at: float = 0.0,
    days: float = 1.0,
    valid_days: int = 0,
    floors: dict[str, float] | None = None,
    required: RequiredLevel = ANY_LEVEL,
) -> str:
    return reason_to_test(
        acceptance,
        identity,
        repaired_at=repaired_at,
        current_time=TESTED_AT + days * DAY,
        valid_days=valid_days,
        floors=floors or {},
        required=required,
    )


def test_pass_is_good_for_any_time_by_default() -> None:
    assert reason(days=10_000) == ""


@pytest.mark.parametrize("field", Identity._fields)
def test_pass_is_good_for_exactly_what_it_names(field: str) -> None:
    changed = IDENTITY._replace(**{field: "other"})
    assert "is other" in reason(identity=changed)
    assert "is unknown" in reason(identity=IDENTITY._replace(**{field: ""}))


def test_repair_after_the_test_asks_for_another_one() -> None:
    assert "it was repaired at" in reason(repaired_at=TESTED_AT + 1)
    assert reason(repaired_at=TESTED_AT - 1) == ""


@given(st.integers(1, 1000), st.floats(0, 2000))
def test_pass_ends_with_its_days(valid_days: int, days: float) -> None:
    assert bool(reason(days=days, valid_days=valid_days)) == (days > valid_days)


def test_higher_floor_than_was_measured_asks_for_another_test() -> None:
    assert reason(floors={"memory_gb_per_s": 2900.0}) == ""
    assert "less than its floor of 3000" in reason(floors={"memory_gb_per_s": 3000.0})
    assert reason(floors={"peer_gb_per_s": 1.0}) == ""  # it was tested alone


@pytest.mark.parametrize(
    ("acceptance", "text"),
    [
        (None, "it was never tested"),
        (PASS._replace(verdict="started"), "its last test was cut off"),
        (PASS._replace(verdict="failed"), "its last test has failed"),
        (PASS._replace(verdict="incomplete"), "its last test was incomplete"),
        (PASS._replace(at=TESTED_AT + 2 * DAY), "the node's clock says"),
    ],
)
def test_anything_but_a_pass_asks_for_a_test(acceptance: Acceptance | None, text: str) -> None:
    assert text in reason(acceptance)


@pytest.mark.parametrize(
    ("acceptance", "required", "text"),
    [
        (PASS, RequiredLevel("standard", 2, ("dcgmi",)), "it was tested at level quick"),
        (STANDARD, ANY_LEVEL, ""),
        (STANDARD, RequiredLevel("standard", 2, ("dcgmi",)), ""),
        (STANDARD, RequiredLevel("standard", 0, ("nvbandwidth",)), ""),
        (STANDARD, RequiredLevel("standard", 3, ("dcgmi",)), "has tested it at level 2"),
        (
            STANDARD,
            RequiredLevel("standard", 2, ("dcgmi", "all_reduce_perf")),
            "it was tested without all_reduce_perf",
        ),
    ],
)
def test_pass_is_good_for_its_level_and_below(
    acceptance: Acceptance, required: RequiredLevel, text: str
) -> None:
    pending = reason(acceptance, required=required)
    assert text in pending
    assert bool(text) == bool(pending)


@pytest.mark.parametrize(
    ("tools", "standing"),
    [
        ((), ("dcgmi diag: memory: it failed", "nccl-tests: 3 wrong values")),
        (("dcgmi", "nvbandwidth"), ("nccl-tests: 3 wrong values",)),
        (("dcgmi", "nvbandwidth", "all_reduce_perf"), ()),
    ],
)
def test_fault_that_a_tool_has_found_stands_until_the_tool_tests_again(
    tools: tuple[str, ...], standing: tuple[str, ...]
) -> None:
    faults = ("dcgmi diag: memory: it failed", "memory: 1 wrong word", "nccl-tests: 3 wrong values")
    acceptance = STANDARD._replace(verdict="failed", faults=faults)
    assert standing_faults(acceptance, RequiredLevel("standard", 0, tools)) == standing
    assert standing_faults(None, ANY_LEVEL) == ()


def test_file_of_a_test_at_level_standard_is_read() -> None:
    """A golden file: later releases must read it, too."""
    entry = json.loads(TEXT)["gpus"]["GPU-3"]
    assert (entry["level"], entry["dcgm_level"], entry["tools"]) == ("standard", 2, TOOLS)
    assert parse_record(TEXT)["GPU-3"] == STANDARD


def test_test_at_level_quick_is_written_as_before_there_were_levels() -> None:
    fields = {"verdict", "identity", "at", "boot", "figures", "faults", "unmeasured"}
    assert set(json.loads(TEXT)["gpus"]["GPU-1"]) == fields


@pytest.mark.parametrize(
    ("name", "value"),
    [("level", "full"), ("level", ["quick"]), ("dcgm_level", "2"), ("tools", ["dcgmi"]), ("x", 1)],
)
def test_level_that_is_damaged_is_refused(name: str, value: object) -> None:
    data = json.loads(TEXT)
    data["gpus"]["GPU-3"][name] = value
    with pytest.raises(NodeError, match="is damaged"):
        parse_record(json.dumps(data))


def test_file_of_this_release_is_read() -> None:
    """A golden file: later releases must read it, too."""
    golden = {
        "version": 1,
        "gpus": {
            "GPU-1": {
                "verdict": "passed",
                "identity": IDENTITY._asdict(),
                "at": "2023-11-14T22:13:20Z",
                "boot": "boot-1",
                "figures": {"memory_gb_per_s": 2900.0},
                "faults": [],
                "unmeasured": {},
            }
        },
    }
    assert parse_record(json.dumps(golden)) == {"GPU-1": PASS._replace(faults=(), unmeasured={})}


MEASURED = (
    st.sampled_from(record.VERDICTS),
    st.dictionaries(st.sampled_from(["a", "b"]), st.floats(0, 1e12)),
    st.lists(st.text(), max_size=40),
    st.dictionaries(st.text(), st.text(), max_size=40),
)
BY_TOOLS = (
    st.just("standard"),
    st.sampled_from([0, 2, 3]),
    st.dictionaries(st.sampled_from(list(TOOLS)), st.text()),
)


@given(
    st.dictionaries(
        st.text("GPU-0123456789", min_size=1, max_size=12),
        st.builds(
            Acceptance.from_result,
            st.one_of(st.builds(GpuResult, *MEASURED), st.builds(GpuResult, *MEASURED, *BY_TOOLS)),
            st.builds(Identity, st.text(), st.text()),
            st.floats(0, 4e9),
            st.text(),
        ),
        max_size=5,
    )
)
def test_whatever_was_measured_is_written_so_that_it_is_read(
    entries: dict[str, Acceptance],
) -> None:
    assert parse_record(dump_record(entries)) == entries


def test_oldest_entries_make_room() -> None:
    entries = {f"GPU-{number}": PASS._replace(at=float(number)) for number in range(MOST_GPUS + 5)}
    assert sorted(parse_record(dump_record(entries)), key=lambda name: int(name[4:]))[0] == "GPU-5"


def test_no_file_is_no_record() -> None:
    assert parse_record(None) == {}


def test_damaged_files_are_refused_within_bounds() -> None:
    thrown = Thrown(parse_record, NodeError)
    thrown.throw(inputs([TEXT], tuple(Acceptance._fields)))
    assert set(thrown.answers) == {"taken", "NodeError"}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8\n", (0, 1, 2, 3, 8)), ("", ()), (None, ()), ("x", ()), ("5\n", (5,)), ("3-x", ())],
)
def test_cpus_of_a_node_as_the_kernel_lists_them(text: str | None, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus
