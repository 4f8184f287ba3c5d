# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Validation of a node of which GPUs were tested under load."""

from __future__ import annotations

from ansible_collections.gpu.node.plugins.module_utils._accept.record import (
    Acceptance,
    Identity,
    Unaccepted,
    judge_gpus,
)
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.gpus import (
    NotAccepted,
    acceptance,
)
from ansible_collections.gpu.node.plugins.module_utils._node.gate import GateReport
from ansible_collections.gpu.node.plugins.module_utils._repair.case import RepairCases

IDENTITY = Identity("580.159.04", pci="0000:19:00.0")


def checked(*faulty: str, untested: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    checks = acceptance(NotAccepted(Unaccepted(faulty, untested)))
    return [(check.state, str(check)) for check in checks]


def test_node_whose_gpus_are_accepted_has_nothing_to_say() -> None:
    assert checked() == []


def test_fault_of_the_last_test_fails_validation() -> None:
    assert checked("GPU a: memory: 1 wrong word", untested=("GPU b: it was never tested",)) == [
        (
            "failed",
            "acceptance: the last test of 1 GPU found faults (GPU a: memory: 1 wrong word)."
            " Next step: run gpu.node.repair, then gpu.node.accept",
        )
    ]


def test_gpu_that_was_not_tested_as_it_is_is_a_warning() -> None:
    assert checked(untested=("GPU b: the driver was 1 and is 2",)) == [
        (
            "warning",
            "acceptance: 1 GPU not accepted (GPU b: the driver was 1 and is 2)."
            " Next step: run gpu.node.accept",
        )
    ]


def test_gate_that_holds_a_gpu_fails_validation() -> None:
    held = NotAccepted(gate=GateReport(("GPU-a: not accepted: it was never tested",)))
    (check,) = acceptance(held)
    assert (check.state, str(check)) == (
        "failed",
        "acceptance: the gate holds GPUs back (GPU-a: not accepted: it was never tested)."
        " Next step: run gpu.node.accept; after a fault, gpu.node.repair first",
    )


def test_gpus_that_an_operator_has_let_in_are_a_warning() -> None:
    (check,) = acceptance(
        NotAccepted(Unaccepted(("GPU a: XID 79",)), gate=GateReport(override="deadline"))
    )
    assert (check.state, check.cause) == (
        "warning",
        "an operator has let in GPUs that were not accepted: deadline",
    )


def test_record_that_is_damaged_fails_validation() -> None:
    (check,) = acceptance(NotAccepted(problem=NodeError("it is damaged", hint="remove it")))
    assert (check.state, check.cause, check.next_step) == ("failed", "it is damaged", "remove it")


def test_gpus_are_told_apart_by_their_last_test() -> None:
    failed = Acceptance("failed", IDENTITY, 1.0, faults=("XID 79",))
    record = {"a": Acceptance("passed", IDENTITY, 1.0), "b": failed}
    gpus = {"a": IDENTITY, "b": IDENTITY, "c": IDENTITY}
    judged = judge_gpus(record, gpus, RepairCases(), 2.0)
    assert Unaccepted.from_gpus(judged) == Unaccepted(
        ("GPU b: XID 79",), ("GPU c: it was never tested",)
    )
    moved = {"a": IDENTITY._replace(pci="0000:3b:00.0")}
    (gpu,) = judge_gpus(record, moved, RepairCases(), 2.0)
    assert "the slot was" in gpu.reason
