# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who has cordoned a node, and what is kept of a change that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.kubernetes.standin_cluster import Cluster

Drain = Callable[..., dict[str, Any]]


def test_what_somebody_else_cordoned_is_not_given_back(cluster: Cluster, drain: Drain) -> None:
    cluster.patch_node("node-1", {"spec": {"unschedulable": True}}, "kubectl-cordon")
    done = drain(state="cordoned")
    assert (done["changed"], done["cordoned"], done["cordoned_by_us"]) == (False, True, False)
    back = drain(state="uncordoned")
    assert not back["changed"]
    assert cluster.cordoned()
    assert "kubectl uncordon node-1 gives it back" in back["warnings"][0]


def test_somebody_else_may_take_over_what_was_ours(cluster: Cluster, drain: Drain) -> None:
    """Uncordoned and cordoned again by hand, which leaves our annotation where it is."""
    drain(state="cordoned")
    for wanted in (None, True):
        cluster.patch_node("node-1", {"spec": {"unschedulable": wanted}}, "kubectl-cordon")
    assert "gpu.node/cordoned" in cluster.annotations()
    back = drain(state="uncordoned")
    assert cluster.cordoned()
    assert back["warnings"]
    assert cluster.annotations() == {}


def test_what_was_uncordoned_by_hand_is_cordoned_again(cluster: Cluster, drain: Drain) -> None:
    drain(state="cordoned", reason="first")
    cluster.patch_node("node-1", {"spec": {"unschedulable": None}}, "kubectl-uncordon")
    done = drain(state="cordoned", reason="second")
    assert (done["changed"], done["cordoned_by_us"]) == (True, True)
    assert cluster.annotations()["gpu.node/cordoned"].endswith(": second")


def test_a_failure_is_kept_and_cleared_with_the_cordon(cluster: Cluster, drain: Drain) -> None:
    drain(state="cordoned")
    failure = "the driver does not load:\n  see token: abc\x1b[31m"
    assert drain(state="cordoned", failure=failure)["changed"]
    kept = cluster.annotations()["gpu.node/failed"]
    when, _blank, text = kept.partition(" ")
    assert when.endswith("Z")
    assert text.startswith("the driver does not load: see token: ***")
    assert not drain(state="cordoned", failure=failure)["changed"]
    assert cluster.annotations()["gpu.node/failed"] == kept
    assert not drain(state="drained")["changed"]
    drain(state="uncordoned")
    assert cluster.annotations() == {}


def test_a_failure_is_kept_on_a_node_that_somebody_else_cordoned(
    cluster: Cluster, drain: Drain
) -> None:
    cluster.patch_node("node-1", {"spec": {"unschedulable": True}}, "kubectl-cordon")
    done = drain(state="cordoned", failure="it broke")
    assert (done["changed"], done["cordoned_by_us"]) == (True, False)
    drain(state="uncordoned")
    assert cluster.cordoned()
    assert cluster.annotations() == {}


def test_a_node_that_changes_meanwhile_is_read_again(cluster: Cluster, drain: Drain) -> None:
    changes = 0

    def change(method: str, path: str) -> None:
        nonlocal changes
        if method == "PATCH" and changes < 3:
            changes += 1
            cluster.patch_node("node-1", {"metadata": {"labels": {"n": str(changes)}}}, "kubelet")

    cluster.before = change
    assert drain(state="cordoned")["changed"]
    assert cluster.cordoned()
    assert sum(method == "PATCH" for method, _path in cluster.requests) == 4


def test_somebody_who_cordons_at_the_same_moment_keeps_the_node(
    cluster: Cluster, drain: Drain
) -> None:
    def cordon(method: str, _path: str) -> None:
        if method == "PATCH":
            cluster.before = lambda _method, _path: None
            cluster.patch_node("node-1", {"spec": {"unschedulable": True}}, "kubectl-cordon")

    cluster.before = cordon
    done = drain(state="cordoned")
    assert (done["cordoned"], done["cordoned_by_us"], done["changed"]) == (True, False, False)
    drain(state="uncordoned")
    assert cluster.cordoned()


def test_a_cordon_whose_answer_was_lost_is_seen(cluster: Cluster, drain: Drain) -> None:
    cluster.faults.append(("PATCH", 503))
    done = drain(state="cordoned")
    assert (done["changed"], done["cordoned_by_us"]) == (True, True)


@pytest.mark.parametrize("state", ["cordoned", "drained", "uncordoned"])
def test_check_mode_changes_nothing(cluster: Cluster, drain: Drain, state: str) -> None:
    if state == "uncordoned":
        drain(state="cordoned")
    before = len(cluster.changes())
    assert drain(state=state, check=True)["changed"]
    assert len(cluster.changes()) == before


def test_a_node_in_quarantine_stays_cordoned_through_other_changes_until_that_ends(
    cluster: Cluster, drain: Drain
) -> None:
    done = drain(state="cordoned", quarantine=True, reason="XID 79 twice (ticket OPS-1)")
    assert (done["changed"], done["cordoned_by_us"]) == (True, True)
    kept = cluster.annotations()["gpu.node/quarantined"]
    assert kept.endswith(": XID 79 twice (ticket OPS-1)")
    again = drain(state="cordoned", quarantine=True, reason="XID 79 twice (ticket OPS-1)")
    assert not again["changed"]
    drain(state="drained")
    drain(state="cordoned", failure="no driver")
    other = drain(state="uncordoned")
    assert cluster.cordoned()
    assert "stays cordoned, since it is in quarantine (XID 79 twice" in other["warnings"][0]
    assert set(cluster.annotations()) == {"gpu.node/quarantined", "gpu.node/cordoned"}
    assert not drain(state="uncordoned")["changed"]
    back = drain(state="uncordoned", quarantine=True)
    assert 'quarantined: ""' in back["diff"]["after"]
    assert "quarantined: XID 79 twice (ticket OPS-1)" in back["diff"]["before"]
    assert not cluster.cordoned()
    assert cluster.annotations() == {}
    assert not drain(state="uncordoned", quarantine=True)["changed"]


def test_another_reason_takes_the_place_of_the_one_before(cluster: Cluster, drain: Drain) -> None:
    for reason in ("first", "second"):
        assert drain(state="cordoned", quarantine=True, reason=reason)["changed"]
        assert cluster.annotations()["gpu.node/quarantined"].endswith(f": {reason}")


def test_what_somebody_else_cordoned_stays_so_after_the_quarantine(
    cluster: Cluster, drain: Drain
) -> None:
    cluster.patch_node("node-1", {"spec": {"unschedulable": True}}, "kubectl-cordon")
    drain(state="cordoned", quarantine=True)
    assert set(cluster.annotations()) == {"gpu.node/quarantined"}
    back = drain(state="uncordoned", quarantine=True)
    assert cluster.cordoned()
    assert "kubectl uncordon node-1 gives it back" in back["warnings"][0]
    assert cluster.annotations() == {}


def test_the_end_of_a_quarantine_gives_no_node_back_of_which_a_change_has_failed(
    cluster: Cluster, drain: Drain
) -> None:
    drain(state="cordoned", failure="no driver")
    drain(state="cordoned", quarantine=True)
    back = drain(state="uncordoned", quarantine=True)
    assert cluster.cordoned()
    assert back["warnings"] == [
        "node node-1 stays cordoned, since a change of it has failed: no driver"
    ]
    assert set(cluster.annotations()) == {"gpu.node/failed", "gpu.node/cordoned"}
    drain(state="uncordoned")
    assert not cluster.cordoned()


def test_a_drain_is_no_quarantine(drain: Drain) -> None:
    refused = drain(state="drained", quarantine=True)
    assert "quarantine: True is not valid: expected false with state drained" in refused["msg"]
