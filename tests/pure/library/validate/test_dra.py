# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What validation says of a node whose GPUs are given out by DRA."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.dra.allocation import owners
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.dra import (
    NAMES,
    DraFacts,
    DraReport,
    checks,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.plugin import Kubelet

from tests.fakes.library.gpu_values import gpu

GPUS = (gpu(0), gpu(1))
GOOD = {
    "state": "serving",
    "problem": None,
    "registered": True,
    "registration_problem": None,
    "enforcement": "mps",
    "enforcement_problems": {GPUS[1].uuid: ""},
    "published": {"generation": 1, "slices": 2, "devices": 2, "problem": ""},
    "gpus": {GPUS[1].uuid: {"index": 1, "claims": 0, "shares": 0, "memory": 0, "cores": 0}},
}
JOINED = Kubelet(there=True)


def look(
    declared: str = "both",
    allocation: str = "both",
    kubelet: Kubelet = JOINED,
    node: Any = GPUS,
    **told: Any,
) -> dict[str, str]:
    """Return what is said of each check, with its state."""
    whose = owners(allocation, ["1"] if allocation == "both" else ())
    dra = DraFacts(whose, DraReport.of({**GOOD, **told}))
    return {
        one.name: one.state if one.holds and not one.cause else f"{one.state} {one.cause}"
        for one in checks(dra, declared, node, kubelet)
    }


def test_a_node_that_is_as_declared_passes() -> None:
    assert look() == dict.fromkeys(NAMES, "passed")
    assert look(declared="") == dict.fromkeys(NAMES, "passed")


def test_a_node_without_dra_has_no_checks_of_it() -> None:
    assert look(declared="", allocation="device_plugin") == {}
    assert look(declared="device_plugin", allocation="device_plugin") == {}


@pytest.mark.parametrize(
    ("given", "name", "words"),
    [
        (
            {"declared": "dra"},
            "allocation",
            "failed gpu_nodes_allocation is dra, and the node has both",
        ),
        (
            {"declared": "dra", "allocation": "device_plugin"},
            "allocation",
            "failed gpu_nodes_allocation is dra, and the node has device_plugin",
        ),
        (
            {"state": "waiting_for_driver", "problem": "no driver"},
            "DRA driver",
            "failed the DRA driver is not serving (no driver)",
        ),
        ({"state": None}, "DRA driver", "failed the DRA driver is not serving (it does not run)"),
        (
            {"registered": False, "registration_problem": "refused"},
            "DRA driver",
            "failed the kubelet does not know of the DRA driver (refused)",
        ),
        (
            {"published": {"problem": "403"}},
            "slices",
            "failed what the cluster has of the node's GPUs is not as it should be (403)",
        ),
        (
            {"gpus": {}},
            "slices",
            f"failed what is published and what is given to DRA differ in {GPUS[1].uuid}",
        ),
        (
            {"allocation": "dra"},
            "slices",
            "failed what is published and what is given to DRA differ",
        ),
        (
            {"enforcement_problems": {GPUS[1].uuid: "no nvidia-cuda-mps-control"}},
            "enforcement",
            f"failed mps is not ready: {GPUS[1].uuid}: no nvidia-cuda-mps-control",
        ),
    ],
)
def test_what_is_wrong_is_told(given: dict[str, Any], name: str, words: str) -> None:
    assert look(**given)[name].startswith(words)


def test_before_a_node_joins_its_cluster_that_is_a_warning() -> None:
    late = {"registered": False, "published": {"problem": "no kubeconfig"}}
    found = look(kubelet=Kubelet(), **late)
    assert [one.partition(" ")[0] for one in found.values()] == [
        "passed",
        "warning",
        "warning",
        "passed",
    ]
    assert look(kubelet=Kubelet(required=True), **late)["slices"].startswith("failed")


def test_what_can_not_be_known_is_not_judged() -> None:
    assert look(node=None)["slices"] == "skipped the driver does not answer"
    silent = look(state="starting")
    assert silent["slices"] == silent["enforcement"] == "skipped the DRA driver does not serve"


@pytest.mark.parametrize("told", [None, [], {"published": 3, "gpus": [], "registered": "yes"}])
def test_a_status_of_another_shape_is_no_status(told: Any) -> None:
    found = DraReport.of(told)
    assert (found.state, found.registered, found.gpus) == ("", False, frozenset())
