# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The gate: which GPUs it holds, what opens it, and how its files are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.gate import (
    NODE,
    GateConfig,
    GateNode,
    check,
    dump_config,
    let_in,
    parse_config,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.record import (
    DAY,
    Acceptance,
    Identity,
    RequiredLevel,
    reason_to_test,
)
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._node import gate as gate_file
from ansible_collections.gpu.node.plugins.module_utils._node.gate import (
    Gate,
    Held,
    Override,
    dump_gate,
    held,
    parse_gate,
    with_held,
)
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import (
    EMPTY,
    Quarantine,
    Quarantined,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    DONE,
    RepairCase,
    RepairCases,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action, Attempt
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile import Thrown, inputs

AT = 1_700_000_000.0
IDENTITY = Identity("580.159.04", "96.00.99", "G520.0200", "692-2G520", "1652", "0000:19:00.0")
PASS = Acceptance("passed", IDENTITY, AT, "boot-1", {"memory_gb_per_s": 2900.0})
FAILED = PASS._replace(verdict="failed", faults=("memory: 32 wrong words",))
GPUS = {"GPU-a": IDENTITY, "GPU-b": IDENTITY}
PASSED = {"GPU-a": PASS, "GPU-b": PASS}
OPEN = Gate("boot-1", open_gpus=("GPU-a", "GPU-b"))
CONFIG = GateConfig(valid_days=7, floors={"memory_gb_per_s": 2800.0})


def node(boot: str = "boot-1", days: float = 1.0, **more: object) -> GateNode:
    return GateNode(boot, AT + days * DAY, GPUS, PASSED)._replace(**more)


def test_new_node_is_held_until_its_gpus_have_passed() -> None:
    before = check(None, CONFIG, node(record={}))
    assert before.gpus["GPU-a"] == Held("not accepted: it was never tested", AT + DAY)
    assert not before.open_gpus
    after = check(before, CONFIG, node())
    assert after.is_open
    assert after.open_gpus == ("GPU-a", "GPU-b")


def test_gpu_that_fails_is_held_alone_or_with_its_node() -> None:
    failed = node(record={**PASSED, "GPU-b": FAILED})
    alone = check(None, CONFIG, failed)
    assert list(alone.gpus) == ["GPU-b"]
    assert (alone.node, alone.open_gpus) == (None, ("GPU-a",))
    whole = check(None, CONFIG._replace(scope=NODE), failed)
    assert whole.node is not None
    assert whole.node.reason == (
        "1 of 2 GPUs are not accepted: GPU GPU-b: not accepted: memory: 32 wrong words"
    )


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"gpus": {**GPUS, "GPU-b": IDENTITY._replace(driver="590.48.01")}}, "the driver was"),
        ({"gpus": {**GPUS, "GPU-b": IDENTITY._replace(serial="77")}}, "the serial number was"),
        ({"record": {"GPU-a": PASS}}, "it was never tested"),
        ({"record": {**PASSED, "GPU-b": PASS._replace(verdict="started")}}, "was cut off"),
        ({"record": {**PASSED, "GPU-b": FAILED}}, "memory: 32 wrong words"),
        (
            {
                "cases": RepairCases(
                    gpus={
                        "GPU-b": RepairCase(
                            attempts=(Attempt(Action.RESET, AT + DAY, result=DONE),)
                        )
                    }
                )
            },
            "it was repaired at",
        ),
    ],
)
def test_gate_closes_where_a_pass_is_good_no_more(changed: dict[str, object], reason: str) -> None:
    after = check(OPEN, CONFIG, node(**changed))
    assert list(after.gpus) == ["GPU-b"]
    assert reason in after.gpus["GPU-b"].reason
    assert after.open_gpus == ("GPU-a",)


@pytest.mark.parametrize(
    "config",
    [
        CONFIG._replace(valid_days=1),
        CONFIG._replace(floors={"memory_gb_per_s": 3000.0}),
        CONFIG._replace(required=RequiredLevel("standard", 2, ("dcgmi",))),
    ],
)
def test_gpu_at_work_is_held_from_the_next_boot_where_more_is_asked_for(config: GateConfig) -> None:
    assert check(OPEN, config, node(days=5)).is_open
    assert list(check(OPEN, config, node("boot-2", days=5)).gpus) == ["GPU-a", "GPU-b"]


def test_gate_that_is_switched_on_at_work_counts_from_the_next_boot() -> None:
    exempt = Gate("", exempt_boot="boot-1")
    first = check(exempt, CONFIG, node(record={}))
    assert first.is_open
    assert check(first, CONFIG, node(record={})) == first
    assert list(check(first, CONFIG, node(record={"GPU-b": FAILED})).gpus) == ["GPU-b"]
    assert list(check(first, CONFIG, node("boot-2", record={})).gpus) == ["GPU-a", "GPU-b"]


def test_gate_that_was_not_checked_since_the_boot_is_closed() -> None:
    assert held(OPEN, "boot-1") == EMPTY
    fenced = held(OPEN, "boot-2").of("GPU-a")
    assert fenced is not None
    assert "not checked since the node booted" in str(fenced)
    assert held(None, "boot-1") == EMPTY


def test_gpus_that_can_not_be_read_change_nothing_but_are_held_after_a_boot() -> None:
    for silent in ("NVML does not answer", ""):
        fields = {"gpus": {}, "silent": silent}
        assert check(OPEN, CONFIG, node(**fields)) == OPEN
        for before in (None, OPEN):
            after = check(before, CONFIG, node("boot-2", **fields))
            assert after.node is not None
            why = silent or "the driver has none"
            assert after.node.reason == f"not accepted: its GPUs can't be read: {why}"


def test_operator_lets_in_what_is_held_until_it_passes() -> None:
    failed = node(record={**PASSED, "GPU-b": FAILED})
    closed = check(None, CONFIG._replace(scope=NODE), failed)
    opened = let_in(closed, "deadline of team A", AT)
    assert opened.is_open
    assert opened.override == Override("deadline of team A", AT, ("GPU-b",))
    for boot in ("boot-1", "boot-2"):  # it stays over a boot
        again = check(opened, CONFIG, failed._replace(boot=boot))
        assert again.is_open
        assert again.override == opened.override
    worse = check(opened, CONFIG, failed._replace(record={"GPU-a": FAILED, "GPU-b": FAILED}))
    assert list(worse.gpus) == ["GPU-a"]  # which nobody has let in
    assert check(opened, CONFIG, node()).override is None
    assert let_in(OPEN, "why", AT) == OPEN


def test_time_of_what_is_held_stays_while_it_is_held() -> None:
    first = check(None, CONFIG, node(days=0, record={}))
    later = check(first, CONFIG, node(days=3, record={"GPU-a": FAILED}))
    assert {entry.since for entry in later.gpus.values()} == {AT}


def test_gpu_that_does_not_answer_stays_held() -> None:
    before = check(None, CONFIG, node(record={}))
    after = check(before, CONFIG, node(gpus={"GPU-a": IDENTITY}))
    assert list(after.gpus) == ["GPU-b"]


VERDICTS = st.sampled_from(["passed", "failed", "incomplete", "started"])
IDENTITIES = st.sampled_from([IDENTITY, IDENTITY._replace(driver="590")])
RECORDS = st.dictionaries(
    st.sampled_from(["GPU-a", "GPU-b"]),
    st.builds(Acceptance, VERDICTS, IDENTITIES, st.just(AT), faults=st.just(())),
)


@given(RECORDS, st.lists(st.tuples(st.sampled_from(["boot-1", "boot-2"]), st.booleans())))
def test_only_a_pass_lets_a_gpu_in(
    record: dict[str, Acceptance], checks: list[tuple[str, bool]]
) -> None:
    gate = None
    for boot, answers in checks:
        silent = {} if answers else {"gpus": {}, "silent": "no answer"}
        gate = check(gate, GateConfig(), node(boot, record=record, **silent))
        accepted = {
            uuid
            for uuid in GPUS
            if not reason_to_test(
                record.get(uuid), IDENTITY, repaired_at=0, current_time=AT + DAY, floors={}
            )
        }
        fenced = held(gate, boot)
        assert {uuid for uuid in GPUS if not fenced.of(uuid)} <= accepted
        if answers:
            assert {uuid for uuid in GPUS if not fenced.of(uuid)} == accepted


def test_quarantine_comes_first_and_the_gate_adds_to_it() -> None:
    operator = Quarantined("operator", "fan", since=AT)
    gate = held(Gate("b", gpus={"GPU-a": Held("x", AT), "GPU-b": Held("y", AT)}), "b")
    both = with_held(Quarantine({"GPU-a": operator}), gate)
    assert {uuid: entry.reason for uuid, entry in both.gpus.items()} == {
        "GPU-a": "fan",
        "GPU-b": "y",
    }
    node_held = held(Gate("b", node=Held("z", AT)), "b")
    assert with_held(EMPTY, node_held).node == Quarantined("gate", "z", since=AT)
    assert with_held(Quarantine(node=operator), node_held).node == operator


FILE = dump_gate(
    Gate(
        "boot-1",
        "boot-0",
        Held("why", AT),
        {"GPU-a": Held("not accepted", AT)},
        ("GPU-b",),
        Override("deadline", AT, ("GPU-c",)),
    )
)


def test_files_are_read_as_they_were_written() -> None:
    assert dump_gate(parse_gate(FILE) or OPEN) == FILE
    config = CONFIG._replace(scope=NODE, required=RequiredLevel("standard", 3, ("dcgmi",)))
    assert parse_config(dump_config(config)) == config
    assert (parse_gate(None), parse_config(None)) == (None, None)


@pytest.mark.parametrize(
    ("parse", "text", "names"),
    [
        (parse_gate, FILE, Gate._fields),
        (parse_config, dump_config(CONFIG), GateConfig._fields),
    ],
)
def test_damaged_files_are_refused_within_bounds(
    parse: Callable[[str], object], text: str, names: tuple[str, ...]
) -> None:
    thrown = Thrown(parse, NodeError)
    thrown.throw(inputs([text], names))
    assert set(thrown.answers) == {"taken", "NodeError"}


def test_damaged_gate_says_what_to_do() -> None:
    with pytest.raises(NodeError, match=r"gate.json.*gpu_nodes_gate: true") as refused:
        parse_gate("{}")
    assert gate_file.PATH in str(refused.value)
