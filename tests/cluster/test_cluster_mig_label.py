# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An administrator labels a node of a cluster with the MIG layout that it is to have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
REASON = "gpu.node/mig.config-reason"
ENTRY = {"devices": [1], "mig-enabled": True}
LAYOUTS = {
    "version": "v1",
    "mig-configs": {
        "halves": [{**ENTRY, "mig-devices": {"3g.40gb": 2}}],
        "small": [{**ENTRY, "mig-devices": {"1g.10gb": 7}}],
    },
}


def test_the_kubelets_own_pods_are_spared_and_the_state_answers(
    make_cluster: MakeCluster,
) -> None:
    chosen = {"mig_config": LAYOUTS, "mig_selected": "halves", "mig_by_label": True}
    cluster = make_cluster("mig-label", "h100-80", 2, **chosen)
    cluster.join()
    up = cluster.node.play(gpu_nodes_require_kubelet=True)
    assert up.ok, up.message()
    cluster.wait(gpu=1, **{"mig_3g.40gb": 2})
    shown = cluster.pod("idle", **{"mig-3g.40gb": 1})

    cluster.kubectl("label", "node", cluster.node.name, f"{LABEL}=small")
    eventually(lambda: cluster.labels().get(STATE), "pending")

    def reason() -> str:
        found = cluster.get("node", cluster.node.name)["metadata"]["annotations"]
        return str(found.get(REASON, ""))

    eventually(lambda: "in use by pod default/idle (container main)" in reason(), True)
    assert cluster.phase("idle") == "Running"
    assert cluster.shown("idle") == shown

    cluster.end("idle")
    eventually(lambda: cluster.labels().get(STATE), "success")
    cluster.wait(gpu=1, **{"mig_1g.10gb": 7})
    assert reason() == ""
    cluster.pod("small", **{"mig-1g.10gb": 1})
    (event,) = cluster.events("MIGConfigApplied")
    assert event["message"] == "the GPUs have the MIG layout small"

    cluster.kubectl("label", "node", cluster.node.name, f"{LABEL}=all-disabled", "--overwrite")
    eventually(lambda: cluster.labels().get(STATE), "failed")
    assert "mig_config has no layout 'all-disabled'" in reason()
    assert cluster.phase("small") == "Running"
