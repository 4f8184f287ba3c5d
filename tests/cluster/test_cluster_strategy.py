# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node that serves whole GPUs only, although some are in MIG mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

HALF = {
    "version": "v1",
    "mig-configs": {
        "half": [
            {"devices": [0, 1], "mig-enabled": False, "mig-devices": {}},
            {"devices": [2, 3], "mig-enabled": True, "mig-devices": {"1g.10gb": 2}},
        ]
    },
}
NONE = {
    "version": "v1",
    "flags": {"migStrategy": "none", "plugin": {"deviceListStrategy": ["cdi-cri"]}},
}


def test_gpus_in_mig_mode_under_strategy_none_fail_no_pod(make_cluster: MakeCluster) -> None:
    cluster = make_cluster("strategy", "h100-80", 4, mig_config=HALF, device_plugin_config=NONE)
    cluster.join()
    up = cluster.node.play()
    assert "it is in MIG mode, and CDI describes no whole GPU that is" in up.message()
    cluster.wait(gpu=2)
    pods = [f"pod-{number}" for number in range(6)]
    for name in pods:
        cluster.begin(name, gpu=1)

    def counts() -> dict[str, int]:
        phases = list(cluster.phases().values())
        return {phase: phases.count(phase) for phase in set(phases)}

    eventually(lambda: (counts(), len(cluster.waiting())), ({"Running": 2, "Pending": 4}, 4))
    cluster.end(*[name for name, phase in cluster.phases().items() if phase == "Running"])
    eventually(counts, {"Running": 2, "Pending": 2})
