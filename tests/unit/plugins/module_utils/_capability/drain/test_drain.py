# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Cordon, drain and uncordon through a stand-in API server and the genuine client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from standin_cluster import Cluster

Drain = Callable[..., dict[str, Any]]


def test_item_3_gpu_pods_are_evicted_and_the_node_given_back(
    cluster: Cluster, drain: Drain
) -> None:
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
