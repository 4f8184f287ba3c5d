# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Simulations of a cluster, which a genuine API server answers for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_cluster import cli
from gpu_cluster.simulate import inventory, objects

from tests.fakes.cluster.simulating import TWO_OF_32, Json, claiming, pod, share, template, whole
from tests.fakes.kubernetes.genuine_api import GenuineApi

DRA = "resource.k8s.io/v1"
NAMESPACED = "/apis/resource.k8s.io/v1/namespaces/default"
MIG = {"name": "m", "gpus": [{"product": "NVIDIA H200", "mig": True}]}


class Cluster:
    """What is in the API, in a few words."""

    def __init__(self, api: GenuineApi) -> None:
        self.api = api

    def create(self, path: str, one: Json, **status: Any) -> None:
        """Create an object with a status, with what our own manifests here leave out."""
        made = json.loads(json.dumps(one))
        if made["kind"] == "Pod":
            for container in made["spec"]["containers"]:
                container.setdefault("image", "x")
        made.setdefault("apiVersion", DRA if "resource.k8s.io" in path else "v1")
        made = self.api.admin.ask(f"creating {one['metadata']}", "POST", path, made)
        if status:
            name = f"{path}/{made['metadata']['name']}/status"
            self.api.admin.ask("setting its status", "PUT", name, {**made, "status": status})

    def node(self, row: Json) -> None:
        """Create a node of an inventory with its slices."""
        name = row["name"]
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "20"}
        self.create(
            objects.PATHS["Node"],
            {"kind": "Node", "metadata": {"name": name}},
            allocatable=allocatable,
        )
        self._ready(name)
        for one in inventory.nodes(json.dumps({"nodes": [row]}), "nodes")[1]:
            meta = {"name": f"{name}-{one['metadata']['name']}"}
            self.create(objects.PATHS["ResourceSlice"], {**one, "metadata": meta})

    def _ready(self, name: str) -> None:
        """Take the taint away that the API server gives to nodes whose kubelet has not spoken yet."""
        path, merge = f"{objects.PATHS['Node']}/{name}", "application/merge-patch+json"
        self.api.admin.ask("readying it", "PATCH", path, {"spec": {"taints": None}}, kind=merge)

    def claim(self, name: str, device: str, **consumed: str) -> None:
        """Create a claim that has a device of node n."""
        asked = share(**consumed) if consumed else whole()
        result: Json = {
            "driver": "gpu.node",
            "pool": "gpu.node/n",
            "device": device,
            "request": "r",
        }
        if consumed:
            result |= {
                "shareID": "0e7fab12-0000-4000-8000-000000000001",
                "consumedCapacity": consumed,
            }
        field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        allocation = {"devices": {"results": [result]}, "nodeSelector": terms}
        spec = {"devices": {"requests": [asked]}}
        made = {"kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}
        self.create(f"{NAMESPACED}/resourceclaims", made, allocation=allocation)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Cluster]:
    with GenuineApi(tmp_path) as api:
        yield Cluster(api)


def test_pods_of_a_genuine_cluster(
    there: Cluster, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "PAGE", 2)  # so that each list has several pages
    for row in (TWO_OF_32, MIG):
        there.node(row)
    for one in objects.CLASSES.values():
        there.create(objects.PATHS["DeviceClass"], dict(one))
    for made in (template("some", share(memory="10000Mi")), template("part", whole(kind="mig"))):
        there.create(f"{NAMESPACED}/resourceclaimtemplates", made)
    there.claim("one", "gpu-0-share", memory="20000Mi")
    there.claim("two", "gpu-1")
    account = {"kind": "ServiceAccount", "metadata": {"name": "default"}}
    there.create("/api/v1/namespaces/default/serviceaccounts", account)
    here = pod("here")
    here["spec"] |= {"nodeName": "n"}
    here["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    for made in (here, claiming("a", "some"), claiming("b", "some"), claiming("c", "part")):
        there.create("/api/v1/namespaces/default/pods", made)

    words = ["simulate", "--json", "--cluster", "--kubeconfig", str(tmp_path / "admin.conf")]
    assert cli.main(words) == 3
    found = json.loads(capsys.readouterr().out)
    pods = {one["name"]: one for one in found["pods"]}
    assert set(pods) == {"a", "b", "c"}
    assert [pods[name]["node"] for name in "abc"] == ["n", None, "m"]
    assert pods["a"]["devices"][0]["device"] == "gpu-0-share"
    reasons = {one["text"] for one in pods["b"]["reasons"]}
    assert "memory 10000Mi: 1 device, most free is 2768Mi" in reasons
    assert {one["name"]: one["pods"] for one in found["nodes"]} == {"n": 2, "m": 1}
    said = there.api.admin.ask("asking for the version", "GET", "/version")["gitVersion"]
    assert found["kubernetes"] == said.removeprefix("v")


def test_who_may_not_read_a_cluster_is_told_what_is_missing(
    there: Cluster, tmp_path: Path, capsys: Any
) -> None:
    there.api.access("nobody", "nothing")
    assert cli.main(["simulate", "--cluster", "--kubeconfig", str(tmp_path / "nobody.conf")]) == 1
    said = capsys.readouterr().err
    assert "listing Node objects" in said
    assert (
        "allow this user to list nodes, pods, priorityclasses and what resource.k8s.io has" in said
    )
