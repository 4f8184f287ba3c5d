# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods that have one GPU leave it, and the node goes on with all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fakes.kubernetes.standin_cluster import Cluster

Drain = Callable[..., dict[str, Any]]


def test_only_the_named_pods_go_and_the_node_is_not_cordoned(
    cluster: Cluster, drain: Drain
) -> None:
    for name in ("train", "serve", "web"):
        cluster.add_pod(name, gpus=1 if name != "web" else 0)
    planned = drain(state="evicted", names=["default/train"], check=True)
    assert (planned["changed"], planned["evicted"]) == (True, ["default/train"])
    done = drain(state="evicted", names=["default/train"])
    assert done["evicted"] == ["default/train"]
    assert sorted(cluster.pods) == ["default/serve", "default/web"]
    assert (cluster.cordoned(), cluster.annotations(), done["warnings"]) == (False, {}, [])
    assert not drain(state="evicted", names=["default/train"])["changed"]


def test_a_claim_stands_for_the_pod_that_has_it(cluster: Cluster, drain: Drain) -> None:
    claimed = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one-gpu"}]}
    cluster.add_pod("train", spec=claimed)
    cluster.add_pod("serve", gpus=1)
    assert drain(state="evicted", names=["default/one-gpu"])["evicted"] == ["default/train"]


def test_a_node_that_somebody_cordoned_stays_so(cluster: Cluster, drain: Drain) -> None:
    cluster.nodes["node-1"]["spec"]["unschedulable"] = True
    cluster.add_pod("train", gpus=1)
    assert drain(state="evicted", names=["default/train"])["warnings"] == []
    assert cluster.cordoned()


def test_a_pod_that_nothing_makes_again_is_refused_by_name(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1, controller="")
    cluster.add_pod("other", gpus=1, controller="")
    refused = drain(state="evicted", names=["default/train"])
    assert "default/train has no controller that makes it again" in refused["msg"]
    assert "default/other" not in refused["msg"]


def test_a_pod_that_stays_is_told_of_without_a_cordon(cluster: Cluster, drain: Drain) -> None:
    cluster.add_pod("train", gpus=1)
    cluster.budgets["default/train"] = ("two-at-least", 0)
    late = drain(state="evicted", names=["default/train"], timeout=1)
    assert "The disruption budget two-at-least needs" in late["msg"]
    assert "cordoned" not in late["msg"]


def test_names_belong_to_the_state_that_has_them(drain: Drain) -> None:
    assert "names: ['default/train'] is not valid" in drain(names=["default/train"])["msg"]
    assert "names: [] is not valid" in drain(state="evicted")["msg"]
    assert "names: 'train' is not valid" in drain(state="evicted", names=["train"])["msg"]
