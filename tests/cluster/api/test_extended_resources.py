# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.cluster_objects beside the DeviceClass of another DRA driver, with the genuine kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from gpu_plugin.config.configuration import parse
from gpu_plugin.slices import build

from tests.cluster.api.test_objects_genuine import manifest, run, summaries
from tests.fakes.cluster.hami_pods import limits, pod
from tests.fakes.daemon.gpu_builders import inventory, view
from tests.fakes.kubernetes.administered import KINDS
from tests.fakes.kubernetes.genuine_api import GenuineApi, found
from tests.support.waiting import eventually

RESOURCE = "nvidia.com/gpu"
DRIVER = "gpu.nvidia.com"
GROUP = "resource.k8s.io/v1"
OURS = (manifest("device-classes"), manifest("extended-resource"))
Json = dict[str, Any]


class Cluster(GenuineApi):
    """A node of each driver, without kubelets, and a scheduler."""

    def fill(self) -> None:
        self._create("ServiceAccount", "default", "v1")
        for name in ("nvidia", "gpu-node"):
            amounts = {"cpu": "100", "memory": "100Gi", "pods": "200"}
            status = {"allocatable": amounts, "capacity": amounts}
            self._create("Node", name, "v1", status=status)
            merge = "application/merge-patch+json"
            path, taints = f"/api/v1/nodes/{name}", {"spec": {"taints": None}}
            self.admin.ask("readying", "PATCH", path, taints, kind=merge)
        devices = [
            {"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}}
            for number in range(8)
        ]
        pool = {"name": "nvidia", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "nvidia", "pool": pool, "devices": devices}
        self._create("ResourceSlice", "nvidia", GROUP, spec=spec)
        config = parse("gpuNode: {allocation: dra, dra: {publish: gpu}}")
        gpus = inventory(*map(view, range(8)))
        for number, spec in enumerate(build(gpus, config, {}, {}, node="gpu-node")):
            self._create("ResourceSlice", f"gpu-node-{number}", GROUP, spec=spec)
        config_file = self.folder / "admin.conf"
        options = ("--leader-elect=false", "--secure-port=0")
        self.start(found("kube-scheduler"), f"--kubeconfig={config_file}", *options)

    def _create(self, kind: str, name: str, version: str, **fields: Any) -> None:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}
        self.admin.ask("creating", "POST", KINDS[kind].format("default"), body)

    def wait_for_next_second(self) -> None:
        """Wait until what is created is newer, as the API counts in seconds."""
        second = int(self.now())
        eventually(lambda: int(self.now()) > second)

    def create_nvidias_class(self) -> None:
        expression = f"device.driver == '{DRIVER}'"
        spec = {
            "selectors": [{"cel": {"expression": expression}}],
            "extendedResourceName": RESOURCE,
        }
        self._create("DeviceClass", DRIVER, GROUP, spec=spec)

    def node_of_new_pod(self) -> str:
        """Create a pod that asks for a GPU, and return its node, or an empty text if it waits."""
        body = pod(limits(gpu=1), automountServiceAccountToken=False)
        body["metadata"] = {"generateName": "p-"}
        path = KINDS["Pod"].format("default")
        name = self.admin.ask("creating", "POST", path, body)["metadata"]["name"]

        def node() -> list[str]:
            created = self.admin.ask("reading", "GET", f"{path}/{name}")
            conditions = created["status"].get("conditions") or ()
            waits = any(item.get("reason") == "Unschedulable" for item in conditions)
            assigned = created["spec"].get("nodeName", "")
            return [assigned] if assigned or waits else []

        (assigned,) = eventually(node)
        return str(assigned)


@pytest.fixture
def cluster(tmp_path: Any) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.fill()
        yield cluster


def test_the_name_of_another_class_is_not_taken(cluster: Cluster) -> None:
    cluster.create_nvidias_class()
    for check in (True, False):
        with pytest.raises(
            NodeError, match=f"would take {RESOURCE} from DeviceClass {DRIVER}"
        ) as refusal:
            run(cluster, *OURS, check=check)
        assert "set fractions_extended_resource to false" in refusal.value.hint
    assert [item["metadata"]["name"] for item in cluster.get("DeviceClass")["items"]] == [DRIVER]
    assert cluster.node_of_new_pod() == "nvidia"
    run(cluster, manifest("device-classes"))
    assert cluster.node_of_new_pod() == "nvidia"


def test_a_name_that_was_taken_is_returned_at_removal(cluster: Cluster) -> None:
    cluster.create_nvidias_class()
    cluster.wait_for_next_second()
    taken = run(cluster, *OURS, force=True)
    assert any(f"{RESOURCE} is that of DeviceClass gpu.gpu.node" in one for one in taken.warnings)
    eventually(cluster.node_of_new_pod, "gpu-node")
    before = cluster.get("DeviceClass", DRIVER)
    gone = run(cluster, *OURS, state="absent")
    assert summaries(gone)[-1] == f"return {RESOURCE} to DeviceClass {DRIVER}"
    eventually(cluster.node_of_new_pod, "nvidia")
    after = cluster.get("DeviceClass", DRIVER)
    assert after["spec"] == before["spec"]
    assert "annotations" not in after["metadata"]


def test_a_name_that_the_class_no_longer_has_is_returned(cluster: Cluster) -> None:
    cluster.create_nvidias_class()
    run(cluster, *OURS, force=True)
    changed = run(cluster, manifest("device-classes"))
    assert summaries(changed)[-1] == f"return {RESOURCE} to DeviceClass {DRIVER}"
    eventually(cluster.node_of_new_pod, "nvidia")


def test_a_newer_class_that_has_taken_the_name_is_named(cluster: Cluster) -> None:
    run(cluster, *OURS)
    eventually(cluster.node_of_new_pod, "gpu-node")
    cluster.wait_for_next_second()
    cluster.create_nvidias_class()
    warnings = run(cluster, *OURS).warnings
    assert any(
        f"{RESOURCE} is that of DeviceClass {DRIVER}, which is newer" in one for one in warnings
    )
