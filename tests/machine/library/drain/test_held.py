# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The taint of a node whose GPUs are not accepted: made, kept and removed beside those of others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.kubernetes.standin_cluster import Cluster
from tests.machine.library.drain.conftest import Drain

OURS = {"key": "gpu.node/not-accepted", "effect": "NoSchedule"}
PRESENT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OWN = {"key": "gpu.node/not-accepted", "effect": "NoExecute"}  # an administrator's


def taints(cluster: Cluster, node: str = "node-1") -> list[dict[str, str]]:
    """Return the taints of a node."""
    return list(cluster.nodes[node]["spec"].get("taints") or [])


def taint(cluster: Cluster, *each: dict[str, str]) -> None:
    """Give node-1 these taints, as kubectl does."""
    cluster.patch_node("node-1", {"spec": {"taints": list(each)}}, "kubectl-taint")


def test_held_node_is_tainted_and_admitted_node_keeps_other_taints(
    cluster: Cluster, drain: Drain
) -> None:
    taint(cluster, PRESENT, OWN)
    held = drain(state="held")
    assert (held["changed"], held["held"], held["joined"]) == (True, True, True)
    assert taints(cluster) == [PRESENT, OWN, OURS]
    assert not drain(state="held")["changed"]
    admitted = drain(state="admitted")
    assert (admitted["changed"], admitted["held"]) == (True, False)
    assert taints(cluster) == [PRESENT, OWN]
    assert not drain(state="admitted")["changed"]
    assert not cluster.cordoned()
    assert cluster.annotations() == {}


@pytest.mark.parametrize("state", ["held", "admitted"])
def test_check_mode_shows_taints_and_changes_none(
    cluster: Cluster, drain: Drain, state: str
) -> None:
    before = [PRESENT] if state == "held" else [PRESENT, OURS]
    taint(cluster, *before)
    answer = drain(state=state, check=True)
    assert (answer["changed"], taints(cluster)) == (True, before)
    assert ("gpu.node/not-accepted:NoSchedule" in answer["diff"]["after"]) == (state == "held")
    assert ("gpu.node/not-accepted:NoSchedule" in answer["diff"]["before"]) != (state == "held")
    assert "nvidia.com/gpu=present:NoSchedule" in answer["diff"]["after"]


@pytest.mark.parametrize("state", ["held", "admitted"])
def test_node_that_has_not_joined_is_no_failure(cluster: Cluster, drain: Drain, state: str) -> None:
    answer = drain(state=state, node="gpu-9")
    assert (answer["changed"], answer["joined"], answer["held"]) == (False, False, False)
    assert cluster.changes() == []
    server = f"http://127.0.0.1:{cluster.port}"
    named = f"node gpu-9 is not in the cluster {server} yet and has no taint"
    assert answer["warnings"] == ([named] if state == "held" else [])


@pytest.mark.parametrize("state", ["held", "admitted"])
def test_name_near_that_of_a_node_is_warned_of(drain: Drain, state: str) -> None:
    [warning] = drain(state=state, node="node-1.example.com")["warnings"]
    assert warning.endswith("; near its name are node-1")


@pytest.mark.parametrize("state", ["held", "admitted"])
def test_taints_that_change_meanwhile_are_kept(cluster: Cluster, drain: Drain, state: str) -> None:
    if state == "admitted":
        taint(cluster, OURS)

    def change(method: str, _path: str) -> None:
        if method == "PATCH":
            cluster.before = lambda _method, _path: None
            taint(cluster, *taints(cluster), PRESENT)

    cluster.before = change
    assert drain(state=state)["changed"]
    assert sorted(taints(cluster), key=str) == sorted(
        [PRESENT, OURS] if state == "held" else [PRESENT], key=str
    )
    assert sum(method == "PATCH" for method, _path in cluster.requests) == 2


@pytest.mark.parametrize("state", ["held", "admitted"])
def test_missing_rights_are_refused_before_the_change(
    cluster: Cluster, drain: Drain, state: str
) -> None:
    taint(cluster, *([] if state == "held" else [OURS]))
    before = taints(cluster)
    cluster.allows = lambda verb, resource: (verb, resource) != ("patch", "nodes")
    answer = drain(state=state)
    assert answer["missing_rights"] == ["patch nodes"]
    assert taints(cluster) == before
    assert cluster.changes() == []


def test_server_that_is_away_is_asked_again_once_something_may_have_changed(
    cluster: Cluster, drain: Drain
) -> None:
    cluster.faults.append(("PATCH", 503))
    answer = drain(state="held")
    assert (answer["changed"], answer["held"]) == (True, True)


@pytest.mark.parametrize("option", [{"quarantine": True}, {"failure": "x"}, {"names": ["a/b"]}])
@pytest.mark.parametrize("state", ["held", "admitted"])
def test_options_of_other_states_are_refused(
    cluster: Cluster, drain: Drain, state: str, option: dict[str, Any]
) -> None:
    answer = drain(state=state, **option)
    assert answer["failed"]
    assert answer["msg"].startswith(f"drain: {next(iter(option))}: ")
    assert cluster.requests == []


def test_cordon_and_drain_leave_the_taint(cluster: Cluster, drain: Drain) -> None:
    drain(state="held")
    for state in ("cordoned", "drained", "uncordoned"):
        assert drain(state=state)["held"], state
    assert taints(cluster) == [OURS]
