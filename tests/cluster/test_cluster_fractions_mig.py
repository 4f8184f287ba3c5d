# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin and the DRA driver side by side on a node, the latter with MIG devices that it makes on demand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cluster import claimed
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.conftest import MakeCluster

EMPTY = [{"devices": [1], "mig-enabled": True, "mig-devices": {}}]
PROFILE = "device.attributes['gpu.nvidia.com'].profile == '{}'"


def instances(cluster: Cluster) -> str:
    """Return how many MIG devices there are of each profile."""
    lines = cluster.node.run("nvidia-smi", "-L").splitlines()
    found = [line.split()[1] for line in lines if line.lstrip().startswith("MIG ")]
    return json.dumps({one: found.count(one) for one in sorted(set(found))})


def mig(cluster: Cluster, profile: str) -> None:
    """Make a claim template for a MIG device of a profile."""
    exactly: dict[str, Any] = {"deviceClassName": "mig.gpu.node"}
    exactly["selectors"] = [{"cel": {"expression": PROFILE.format(profile)}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    cluster.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": profile.replace(".", "-")},
            "spec": {"spec": spec},
        }
    )


def test_device_plugin_and_dra_side_by_side_with_mig_on_demand(
    make_cluster: MakeCluster,
) -> None:
    both = {"gpu_nodes_allocation": "both", "gpu_nodes_dra_devices": [1], "mig_config": EMPTY}
    cluster = make_cluster("both", "h100-80", 2, **both)
    cluster.bring_up()
    claimed.manifests(cluster, "device-classes")
    cluster.wait(gpu=1)
    assert instances(cluster) == "{}"

    # What stands in each other's way on the grid waits, the rest is made where it fits.
    for profile in ("3g.40gb", "1g.10gb"):
        mig(cluster, profile)
    claimed.deploy(cluster, "half", 1, claimed.pod("3g-40gb"))
    eventually(lambda: dict(claimed.phases(cluster, "half")), {"Running": 1})
    claimed.deploy(cluster, "small", 5, claimed.pod("1g-10gb"))
    wanted = {"Running": 4, "Pending": 1}
    eventually(lambda: dict(claimed.phases(cluster, "small")), wanted)
    assert json.loads(instances(cluster)) == {"1g.10gb": 4, "3g.40gb": 1}
    shown = cluster.pod("plugin", gpu=1)
    assert "/dev/nvidia0" in shown
    assert "/dev/nvidia1" not in shown
    (half,) = cluster.kubectl("get", "pods", "--selector=app=half", "--output=name").split()
    seen = cluster.kubectl("logs", half).splitlines()
    assert "/dev/nvidia1" in seen
    assert "/dev/nvidia0" not in seen
    assert len([one for one in seen if one.startswith("/dev/nvidia-caps/nvidia-cap")]) == 2

    # Another run of the playbook leaves alone what claims hold, and a change of owners is refused by name.
    same = cluster.node.play()
    assert same.ok, same.message()
    assert same.changed() == []
    refused = cluster.node.play(gpu_nodes_allocation="device_plugin", gpu_nodes_dra_devices=[])
    assert not refused.ok
    assert "default/" in refused.message()
    assert json.loads(instances(cluster)) == {"1g.10gb": 4, "3g.40gb": 1}
    assert claimed.phases(cluster, "half") == {"Running": 1}

    kinds = "deployments,replicasets,pods,resourceclaims"
    cluster.kubectl("delete", kinds, "--all", "--wait=true", "--now")
    eventually(lambda: instances(cluster), "{}")
    back = cluster.node.play(gpu_nodes_allocation="device_plugin", gpu_nodes_dra_devices=[])
    assert back.ok, back.message()
    assert cluster.get("resourceslices") == []  # before the driver ended
