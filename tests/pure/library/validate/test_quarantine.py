# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is in quarantine is a warning of a validation and no failure, and nothing is tried on it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.gpus import SetAside
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.node import (
    NodeState,
    ValidateOptions,
)
from ansible_collections.gpu.node.plugins.module_utils._node.gpu_record import Gpus
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import (
    OPERATOR,
    Quarantine,
    Quarantined,
    data_of,
)

from tests.fakes.library.nodes_to_validate import PLAIN, failures, node, resource, told

ASIDE = Quarantined(OPERATOR, "XID 79 twice", "OPS-1", 1_800_000_000.0)
SAID = "in quarantine since 2027-01-15T08:00:00Z by an operator: XID 79 twice (ticket OPS-1)"
STEP = "run gpu.node.release for what is repaired"


def plugin(found: Quarantine, *sick: str) -> dict[str, t.Any]:
    """Return what the device plugin says of a GPU, of one in MIG mode, and of these that are unhealthy."""
    uuids = {"0": "GPU-1", "1:0": "MIG-1"}
    health = {one: "Unhealthy" if one in sick else "Healthy" for one in uuids.values()}
    return {
        **resource(devices=health),
        "allocatable": {"nvidia.com/gpu": len(health) - len(sick)},
        "gpu_uuids": ["GPU-1", "GPU-2"],
        "gpu_indices": ["0", "1"],
        "devices": [{"uuid": one, "index": at, "reason": "x"} for at, one in uuids.items()],
        "quarantine": data_of(found),
    }


@pytest.mark.parametrize(
    ("found", "sick"),
    [
        (Quarantine({"GPU-1": ASIDE}), ["GPU-1"]),
        (Quarantine({"GPU-2": ASIDE}), ["MIG-1"]),
        (Quarantine({}, ASIDE), ["GPU-1", "MIG-1"]),
    ],
)
def test_a_device_of_what_is_set_aside_is_unhealthy_and_fails_nothing(
    found: Quarantine, sick: list[str]
) -> None:
    one = node(plugin(found, *sick), aside=SetAside(found))
    assert "health" not in failures(one)
    named = next(iter(found.gpus), "the node")
    assert told(one, "warning")["quarantine"] == f"{named} is {SAID} -> {STEP}"


def test_another_device_that_is_unhealthy_still_fails() -> None:
    one = node(plugin(Quarantine({"GPU-2": ASIDE}), "GPU-1", "MIG-1"))
    assert failures(one)["health"].startswith(
        "the device plugin reports unhealthy devices (nvidia.com/gpu GPU-1)"
    )


@pytest.mark.parametrize(
    "wrong",
    [{"quarantine": 7}, {"gpu_indices": [[]], "gpu_uuids": [{}]}, {"devices": [{"index": 1}]}],
)
def test_a_plugin_that_says_it_otherwise_hides_nothing(wrong: dict[str, t.Any]) -> None:
    said = {**plugin(Quarantine({"GPU-1": ASIDE}), "GPU-1"), **wrong}
    assert "GPU-1" in failures(node(said))["health"]


def test_a_node_without_a_quarantine_has_no_check_of_it() -> None:
    assert "quarantine" not in {
        **failures(node()),
        **told(node(), "passed"),
        **told(node(), "skipped"),
    }


def test_many_are_counted() -> None:
    found = Quarantine({f"GPU-{at}": ASIDE for at in range(9)})
    said = told(node(aside=SetAside(found)), "warning")["quarantine"]
    assert "GPU-3 is in quarantine" in said
    assert "GPU-4" not in said
    assert "; and 5 more" in said


def test_what_is_elsewhere_by_now_is_a_warning_with_its_next_step() -> None:
    moved = (NodeError("GPU-9 is at x, where GPU-1 was", hint="run gpu.node.release for it"),)
    said = told(node(aside=SetAside(Quarantine({"GPU-1": ASIDE}), moved)), "warning")
    assert said["quarantine"] == "GPU-9 is at x, where GPU-1 was -> run gpu.node.release for it"


def test_a_file_that_is_damaged_fails() -> None:
    error = NodeError("the file is damaged", cause="x. Next step: y", hint="restore it")
    one = node(aside=SetAside(problem=error))
    assert failures(one)["quarantine"] == "the file is damaged: x. Next step: y -> restore it"


HERE, GONE = "0000:01:00.0", "0000:02:00.0"
LOST = Quarantine({"GPU-2": ASIDE._replace(pci=GONE)})
PROOF = ValidateOptions(aside_may_be_missing=True)


def lost(*on_bus: str, known: t.Sequence[str] = (HERE, GONE), **more: t.Any) -> NodeState:
    """Return a node of which the first GPU alone answers."""
    found = Gpus(tuple(known), on_bus, more.pop("meant", -1))
    aside = SetAside(more.pop("aside", LOST))
    return node(gpus=(PLAIN,), mig_uuids=(), pci_gpus=len(on_bus), recorded=found, aside=aside)


@pytest.mark.parametrize("on_bus", [(HERE, GONE), (HERE,)])
def test_a_gpu_that_is_set_aside_and_missing_fails_a_validation_and_no_proof_of_the_others(
    on_bus: tuple[str, ...],
) -> None:
    one = lost(*on_bus)
    missing = (
        f"{GONE} is not on its PCI bus" if len(on_bus) < 2 else "1 of 2 GPUs on the PCI bus answer"
    )
    assert missing in failures(one)["GPUs"]
    assert "GPUs" not in failures(one, PROOF)
    assert missing in told(one, "warning", PROOF)["GPUs"]
    assert "GPUs" not in failures(one, PROOF._replace(gpu_count=2))


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (lost(HERE, GONE, aside=Quarantine()), PROOF),
        (lost(HERE, GONE, "0000:03:00.0", known=(HERE, GONE)), PROOF),
        (lost(HERE, GONE, known=(HERE, GONE, "0000:03:00.0")), PROOF),
        (lost(HERE, GONE), PROOF._replace(gpu_count=3)),
        (lost(HERE, "0000:03:00.0", known=()), PROOF._replace(gpu_count=2)),
    ],
)
def test_another_gpu_that_is_missing_fails_the_proof(
    one: NodeState, wanted: ValidateOptions
) -> None:
    assert "GPUs" in failures(one, wanted)
