# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin as the DaemonSet of files/kubernetes, from the image of its Containerfile, on a genuine kubelet."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpunode_tool import containers
from gpunode_tool.inside import container
from gpunode_tool.podman import podman

from tests.cluster.cluster import Cluster
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.cluster.conftest import MakeCluster

Json = dict[str, Any]
KUBERNETES = REPOSITORY / "files/kubernetes"
HOST = [
    "driver",
    "runtime",
    "mig",
    "cdi",
]  # what the collection does there, all but the device plugin
MIG = {
    "version": "v1",
    "mig-configs": {
        "mixed": [
            {"devices": [0], "mig-enabled": False, "mig-devices": {}},
            {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "3g.40gb": 1}},
        ]
    },
}
ALL = {"gpu": 1, "mig_1g.10gb": 2, "mig_3g.40gb": 1}
SELECTOR = "--selector=app.kubernetes.io/name=gpu-plugin"
SPACE = "--namespace=kube-system"
SECONDS = 90


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A node with all that the collection brings but the device plugin, in its cluster, and the image on it."""
    found = make_cluster("pod", "h100-80", 2, mig_config=MIG, gpu_nodes_components=HOST)
    found.bring_up()
    image = containers.plugin([Path(os.environ["WHEELHOUSE"])])
    archive = tmp_path_factory.mktemp("image") / "gpu-plugin.tar"
    containers.save(image, archive)
    podman("cp", str(archive), f"{container(found.node.name)}:/root/gpu-plugin.tar")
    found.node.run(*("ctr", "--namespace", "k8s.io", "images", "import"), "/root/gpu-plugin.tar")
    config, daemon = manifests(image)
    found.apply(config)
    found.apply(daemon)
    return found


def manifests(image: str) -> tuple[Json, Json]:
    """Return the ConfigMap and the DaemonSet as the comments in them say to change them for such a node.

    It has CDI alone, so no handler brings the driver's libraries and device nodes in; and it has MIG. Only the socket
    below /run/nvsim is the simulation's, behind the device nodes.
    """
    (config,) = yaml.safe_load_all((KUBERNETES / "device-plugin-config.yaml").read_text())
    (daemon,) = yaml.safe_load_all((KUBERNETES / "device-plugin.yaml").read_text())
    text = config["data"]["config.yaml"]
    config["data"]["config.yaml"] = text.replace("migStrategy: none", "migStrategy: mixed")
    assert config["data"]["config.yaml"] != text
    pod = daemon["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["image"], container["imagePullPolicy"] = image, "Never"
    del pod["runtimeClassName"]
    container["env"].append({"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"})
    container["securityContext"] = {
        "runAsUser": 0,
        "privileged": True,
        "readOnlyRootFilesystem": True,
    }
    for name, path, inside in (
        ("driver", "/", "/driver-root"),
        ("nvsim", "/run/nvsim", "/run/nvsim"),
    ):
        pod["volumes"].append({"name": name, "hostPath": {"path": path}})
        container["volumeMounts"].append({"name": name, "mountPath": inside, "readOnly": True})
    return config, daemon


def pods(cluster: Cluster) -> list[Json]:
    found: list[Json] = cluster.get("pods", SPACE, SELECTOR)
    return found


def ready(cluster: Cluster) -> list[bool]:
    return [
        status["ready"]
        for one in pods(cluster)
        for status in one["status"].get("containerStatuses", [])
    ]


def logged(cluster: Cluster) -> str:
    return cluster.kubectl("logs", SPACE, SELECTOR, "--tail=-1")


def test_the_daemonset_advertises_gpus_and_mig_devices(cluster: Cluster) -> None:
    eventually(lambda: ready(cluster), [True])
    cluster.wait(**ALL)
    (pod,) = pods(cluster)
    told = cluster.node.run("cat", "/run/gpu-node/device-plugin.lock")
    assert told == f"the pod {pod['metadata']['name']}"


def test_pods_get_what_it_gives_them(cluster: Cluster) -> None:
    cluster.wait(**ALL)
    whole = cluster.pod("whole", gpu=1)
    part = cluster.pod("part", **{"mig-1g.10gb": 1})
    assert "/dev/nvidia0" in whole
    assert "/dev/nvidia1" not in whole
    assert "/dev/nvidia1" in part
    assert "/dev/nvidia0" not in part
    assert len([one for one in part if one.startswith("/dev/nvidia-caps/")]) == 2
    cluster.end()


def test_the_hosts_service_is_refused_beside_it_before_anything_changes(
    cluster: Cluster,
) -> None:
    cluster.wait(**ALL)
    (pod,) = pods(cluster)
    play = cluster.node.play(gpu_nodes_components=["driver", "device_plugin"])
    assert not play.ok
    said = play.message()
    name = pod["metadata"]["name"]
    assert f"another device plugin serves the GPUs of this node: the pod {name}" in said
    assert "keep the DaemonSet's pods off this node" in said
    assert play.changed() == []
    assert "gpu-device-plugin" not in cluster.node.run("ls", "/etc/systemd/system")


def test_the_pod_is_refused_beside_the_hosts_service_and_takes_over_after_it(
    cluster: Cluster,
) -> None:
    _config, daemon = manifests(containers.plugin([Path(os.environ["WHEELHOUSE"])]))
    nowhere = copy.deepcopy(daemon)
    nowhere["spec"]["template"]["spec"]["nodeSelector"]["nobody"] = "has-this"
    cluster.apply(nowhere)
    eventually(lambda: pods(cluster), [])
    parts = {"gpu_nodes_components": ["device_plugin"], "device_plugin_wait_timeout": SECONDS}
    up = cluster.node.play(**parts)
    assert up.ok, up.message()
    cluster.wait(**ALL)

    cluster.kubectl("delete", "daemonset", "gpu-plugin", SPACE)
    cluster.apply(daemon)
    refused = "another device plugin serves the GPUs of this node: gpu-device-plugin.service"
    eventually(lambda: refused in logged(cluster), True)
    assert "device_plugin_state: absent" in logged(cluster)
    assert cluster.node.status()["state"] == "serving"
    cluster.wait(**ALL)

    down = cluster.node.play(**parts, device_plugin_state="absent")
    assert down.ok, down.message()
    eventually(lambda: ready(cluster), [True])
    cluster.wait(**ALL)
