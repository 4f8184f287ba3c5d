# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drains through a stand-in API server and the genuine client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.clock import Clock
from tests.fakes.kubernetes.standin_cluster import DROP, Cluster

Drain = Callable[..., dict[str, Any]]
PATIENCE = 60  # seconds of the clock
NEVER = 1e9


def at(clock: Clock, seconds: float, happens: Callable[[], object]) -> None:
    """Let something happen when the clock has come so far."""

    def moved(one: Clock) -> None:
        if one.now >= seconds:
            one.at = lambda _clock: None
            happens()

    clock.at = moved


def complete(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.pods[f"default/{name}"]["status"]["phase"] = "Succeeded"


def test_gpu_pods_are_evicted_and_the_node_given_back(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=2)
    cluster.add_pod("web")
    cluster.add_pod("other", node="node-2", gpus=1)
    done = drain(reason="driver upgrade")
    assert done["changed"], done
    assert done["evicted"] == ["default/train"]
    assert (done["cordoned"], done["cordoned_by_us"]) == (True, True)
    assert sorted(cluster.pods) == ["default/other", "default/web"]
    assert cluster.annotations()["gpu.node/cordoned"].endswith(": driver upgrade")
    again = drain(reason="something else")
    assert not again["changed"], again
    assert again["evicted"] == []
    back = drain(state="uncordoned")
    assert back["changed"]
    assert not cluster.cordoned()
    assert cluster.annotations() == {}
    assert not drain(state="uncordoned")["changed"]


def test_all_pods_but_those_that_have_to_stay_go(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("web")
    cluster.add_pod(
        "kube-system/exporter", controller="DaemonSet", spec={"runtimeClassName": "nvidia"}
    )
    cluster.add_pod("kube-system/plugin", controller="DaemonSet", gpus=1)
    cluster.add_pod(
        "kube-system/etcd",
        controller="Node",
        meta={"annotations": {"kubernetes.io/config.mirror": "1"}},
    )
    cluster.add_pod("done", controller="Job", status={"phase": "Succeeded"})
    done = drain(pods="all")
    assert done["evicted"] == ["default/web"], done
    assert {one["pod"]: one["reason"] for one in done["left"]} == {
        "kube-system/exporter": "DaemonSet",
        "kube-system/plugin": "DaemonSet",
        "kube-system/etcd": "static pod",
        "default/done": "finished",
    }
    [warning] = done["warnings"]
    assert "kube-system/exporter (by its runtime class" in warning
    assert "kube-system/plugin (nvidia.com/gpu: 1)" in warning
    assert "etcd" not in warning


DAEMONSET = "/apis/apps/v1/namespaces/default/daemonsets/x"


@pytest.mark.parametrize("pods", ["gpu", "all"])
@pytest.mark.parametrize(
    "owner",
    [
        {"name": "gone"},
        {"uid": "of another"},
        {"apiVersion": "example.com/v1"},
        {"apiVersion": "../../api/v1"},
    ],
)
@pytest.mark.attack("pod-that-stays-on-a-drained-node")
def test_a_daemonset_that_is_not_there_keeps_no_pod_on_the_node(
    cluster: Cluster, drain: Drain, owner: dict[str, str], pods: str
) -> None:
    pod = cluster.add_pod("train", controller="DaemonSet", gpus=1)
    pod["metadata"]["ownerReferences"][0].update(owner)
    refused = drain(pods=pods)
    reason = "has no controller that makes it again"
    assert refused["blocked"] == [{"pod": "default/train", "reason": reason}]
    done = drain(pods=pods, bare_pods="delete")
    assert (done["evicted"], done["warnings"]) == (["default/train"], []), done


@pytest.mark.attack("pod-that-stays-on-a-drained-node")
def test_a_pod_that_says_it_is_static_keeps_no_gpu(cluster: Cluster, drain: Drain) -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "1"}}
    cluster.add_pod("train", gpus=1, meta=mirror)
    other = cluster.add_pod("serve", gpus=1, controller="Node", meta=mirror)
    other["metadata"]["ownerReferences"][0]["name"] = "node-2"
    cluster.add_pod("kube-system/etcd", gpus=1, controller="Node", meta=mirror)
    done = drain()
    assert done["evicted"] == ["default/serve", "default/train"], done
    assert [one["pod"] for one in done["left"]] == ["kube-system/etcd"]


def test_each_daemonset_is_asked_for_once_and_only_where_it_matters(
    cluster: Cluster, drain: Drain
) -> None:
    for name in ("a", "b"):
        cluster.add_pod(name, controller="DaemonSet", gpus=1)
    cluster.add_pod("kube-system/proxy", controller="DaemonSet")
    cluster.add_pod("far", node="node-2", controller="DaemonSet", gpus=1)
    cluster.add_pod("train", gpus=1)
    done = drain()
    assert done["evicted"] == ["default/train"]
    assert [path for _method, path in cluster.requests if "daemonsets" in path] == [DAEMONSET]


def test_check_mode_says_what_would_go_and_changes_nothing(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)
    done = drain(check=True)
    assert (done["changed"], done["evicted"], done["cordoned"]) == (True, ["default/train"], False)
    assert [one["summary"] for one in done["steps"]] == [
        "cordon node node-1",
        "evict default/train from node node-1",
    ]
    assert "default/train" in done["diff"]["before"]
    assert "default/train" not in done["diff"]["after"]
    assert cluster.changes() == []


@pytest.mark.parametrize(
    ("pod", "answer", "said"),
    [
        ({"controller": ""}, {"bare_pods": "delete"}, "has no controller that makes it again"),
        (
            {"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}},
            {"emptydir": "delete"},
            "has data in emptyDir (scratch)",
        ),
    ],
)
def test_what_would_be_lost_is_refused_before_the_cordon(
    cluster: Cluster, drain: Drain, pod: dict[str, Any], answer: dict[str, str], said: str
) -> None:
    cluster.add_pod("train", gpus=1, **pod)
    cluster.add_pod("serve", gpus=1)
    for check in (True, False):
        refused = drain(check=check)
        assert refused["failed"]
        assert refused["blocked"] == [{"pod": "default/train", "reason": said}]
        assert "gpu_nodes_drain_bare_pods" in refused["msg"]
    assert cluster.changes() == []
    assert not cluster.cordoned()
    assert drain(**answer)["evicted"] == ["default/serve", "default/train"]


def test_an_eviction_names_the_pod_by_its_uid_and_its_grace_period(
    cluster: Cluster, drain: Drain
) -> None:
    for name, options in (("a", {"grace_period": 7}), ("b", {"grace_period": -1})):
        pod = cluster.add_pod(name, gpus=1)
        drain(**options)
        made = cluster.evictions.pop()
        assert made["preconditions"] == {"uid": pod["metadata"]["uid"]}
        assert made.get("gracePeriodSeconds") == (7 if name == "a" else None)


def test_a_pod_of_the_same_name_elsewhere_is_not_evicted(cluster: Cluster, drain: Drain) -> None:
    """It is made again on another node between the look and the eviction, as a StatefulSet does."""
    cluster.add_pod("train-0", gpus=1, controller="StatefulSet")

    def move(_method: str, path: str) -> None:
        if path.endswith("/eviction") and len(cluster.pods) == 1 and not cluster.evictions:
            cluster.add_pod("train-0", node="node-2", gpus=1, meta={"uid": "another"})

    cluster.before = move
    done = drain()
    assert done["evicted"] == [], done
    assert cluster.evictions == []
    assert cluster.pods["default/train-0"]["spec"]["nodeName"] == "node-2"


def test_a_budget_is_respected_until_it_allows_the_eviction(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)
    cluster.budgets["default/train"] = ("two-at-least", 0)
    asked = 0

    def allow_the_third(_method: str, path: str) -> None:
        nonlocal asked
        asked += path.endswith("/eviction")
        if asked == 3:
            cluster.budgets.clear()

    cluster.before = allow_the_third
    assert drain(timeout=PATIENCE)["evicted"] == ["default/train"]
    assert asked == 3


def test_a_budget_that_allows_nothing_is_named_at_the_end(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)
    cluster.add_pod("serve", gpus=1)
    cluster.budgets["default/train"] = ("two-at-least", 0)
    failed = drain(timeout=1, retries=1)
    assert failed["failed"]
    assert failed["changed"]
    assert failed["evicted"] == ["default/serve"]
    [blocked] = failed["blocked"]
    assert blocked["pod"] == "default/train"
    assert "The disruption budget two-at-least needs 1 healthy pods" in blocked["reason"]
    assert "evicted so far: default/serve" in failed["msg"]
    assert "kubectl get pdb -A" in failed["msg"]
    assert cluster.cordoned()
    cluster.budgets.clear()
    assert drain()["evicted"] == ["default/train"]


def test_a_name_like_that_of_a_credential_hides_no_reason(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("token-0", gpus=1)
    cluster.budgets["default/token-0"] = ("two-at-least", 0)
    assert "The disruption budget two-at-least needs" in drain(timeout=1)["msg"]


def test_a_pod_of_a_namespace_that_is_removed_goes_without_us(
    cluster: Cluster, drain: Drain, clock: Clock
) -> None:
    cluster.add_pod("old/train", gpus=1)
    cluster.removed.add("old")
    at(clock, 2, cluster.pods.clear)
    done = drain(timeout=PATIENCE)
    assert (done.get("evicted"), done["changed"]) == ([], True), done
    assert cluster.pods == {}


def test_a_pod_that_does_not_end_is_named(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)
    cluster.ends_after["default/train"] = NEVER
    failed = drain(timeout=1)
    assert failed["evicted"] == ["default/train"]
    assert failed["blocked"] == [
        {"pod": "default/train", "reason": "was asked to end, and the kubelet has not ended it yet"}
    ]
    again = drain(timeout=1)
    assert again["failed"]
    assert again["evicted"] == []
    assert len(cluster.evictions) == 1


@pytest.mark.parametrize(("retries", "enough"), [(1, False), (2, True)])
def test_retries_give_a_drain_more_time(
    cluster: Cluster, drain: Drain, clock: Clock, retries: int, *, enough: bool
) -> None:
    cluster.add_pod("train", gpus=1)
    cluster.ends_after["default/train"] = NEVER
    at(clock, 25, cluster.pods.clear)
    done = drain(timeout=10, retries=retries)
    assert done.get("failed", False) != enough
    assert done["evicted"] == ["default/train"]
    assert clock.now == (20 if not enough else min(clock.now, 30))


def test_a_pod_that_comes_in_between_goes_too(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)

    def come(_method: str, path: str) -> None:
        if path.endswith("train/eviction"):
            cluster.add_pod("late", gpus=1)

    cluster.before = come
    assert drain(timeout=PATIENCE)["evicted"] == ["default/late", "default/train"]


def test_jobs_finish_first(cluster: Cluster, drain: Drain, clock: Clock) -> None:
    cluster.add_pod("serve", gpus=1)
    cluster.add_pod("job", controller="Job", gpus=1)
    cluster.add_pod("alone", controller="", gpus=1, spec={"restartPolicy": "Never"})
    at(clock, 3, lambda: complete(cluster, "job", "alone"))
    done = drain(wait_for_jobs=PATIENCE)
    assert done["waited"] == ["default/alone", "default/job"], done
    assert done["evicted"] == ["default/serve"]
    assert {one["pod"] for one in done["left"]} == {"default/alone", "default/job"}


def test_a_job_that_does_not_finish_in_time_is_evicted(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("job", controller="Job", gpus=1)
    done = drain(wait_for_jobs=1)
    assert (done["waited"], done["evicted"]) == ([], ["default/job"])


def test_a_bare_pod_that_does_not_finish_in_time_is_refused(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("alone", controller="", gpus=1, spec={"restartPolicy": "Never"})
    cluster.add_pod("serve", gpus=1)
    refused = drain(wait_for_jobs=1)
    assert refused["failed"]
    assert [one["pod"] for one in refused["blocked"]] == ["default/alone"]
    assert cluster.evictions == []
    assert cluster.cordoned()
    assert refused["changed"]


def test_only_waiting_is_no_change(cluster: Cluster, drain: Drain, clock: Clock) -> None:
    drain(state="cordoned")
    cluster.add_pod("job", controller="Job", gpus=1)
    at(clock, 2, lambda: complete(cluster, "job"))
    done = drain(wait_for_jobs=PATIENCE)
    assert done["waited"] == ["default/job"]
    assert not done["changed"]


def test_a_server_that_goes_away_for_a_while_is_waited_for(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)

    def stumble(_method: str, path: str) -> None:
        if path.endswith("/eviction") and not cluster.evictions:
            cluster.before = lambda _method, _path: None
            cluster.faults += [("POST", DROP), ("GET", DROP), ("GET", 503), ("GET", 429)]

    cluster.before = stumble
    done = drain(timeout=PATIENCE)
    assert done["evicted"] == ["default/train"], done
    assert not cluster.faults


def test_a_server_that_stays_away_leaves_the_node_cordoned(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)

    def go(_method: str, path: str) -> None:
        if path.endswith("/eviction"):
            cluster.faults += [("POST", DROP), *[("GET", DROP)] * 100]

    cluster.before = go
    failed = drain(timeout=1)
    assert failed["failed"]
    assert "the API server is away" in failed["msg"]
    assert "the node stays cordoned" in failed["msg"]
    assert failed["changed"]
    assert cluster.cordoned()


@pytest.mark.parametrize("driver", ["gpu.nvidia.com", "gpu.node", "nic.example.com"])
def test_a_claim_of_dra_counts_where_it_is_for_gpus(
    cluster: Cluster, drain: Drain, driver: str
) -> None:
    claim = [{"name": "x", "resourceClaimName": "mine"}]
    cluster.add_pod("train", spec={"resourceClaims": claim})
    devices = {"results": [{"driver": driver, "pool": "p", "device": "d"}]}
    cluster.claims["default/mine"] = {"status": {"allocation": {"devices": devices}}}
    assert drain()["evicted"] == ([] if driver == "nic.example.com" else ["default/train"])
