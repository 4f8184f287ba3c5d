# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The published devices as an API server tells them, and a percentage of what they have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from gpu_cluster.hami.published import Device
from gpu_cluster.webhook import slices
from gpu_cluster.webhook.slices import Slices
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.fakes.cluster.hami_pods import Json, limits, pod
from tests.fakes.kubernetes.webhook_cluster import DRA, Cluster
from tests.support.waiting import LIMIT, eventually

HALF = pod(limits(gpu=1, gpumem_percentage=50))


def published(name: str, *memory: str, driver: str = "gpu.node") -> Json:
    def device(number: int, size: str) -> Json:
        texts = {"type": "share", "uuid": f"GPU-{number}", "enforcement": "mps"}
        policy = {"default": size, "validRange": {"min": "1Mi", "step": "1Mi"}}
        return {
            "name": f"gpu-{number}-share",
            "allowMultipleAllocations": True,
            "attributes": {key: {"string": text} for key, text in texts.items()},
            "capacity": {"memory": {"value": size, "requestPolicy": policy}},
        }

    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [device(number, size) for number, size in enumerate(memory)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "nodeName": name, "pool": pool, "devices": devices},
    }


@pytest.fixture
def cluster(cluster: Cluster) -> Iterator[Cluster]:
    """One that has no slices afterwards."""
    yield cluster
    for one in cluster.read(f"{DRA}/resourceslices")["items"]:
        cluster.remove(f"{DRA}/resourceslices/{one['metadata']['name']}")


@pytest.fixture
def followed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slices]:
    monkeypatch.setattr(slices, "PAGE", 1)
    made = Slices(cluster.admin)
    threading.Thread(target=made.follow, daemon=True).start()
    yield made
    made.end()


def sizes(followed: Slices) -> list[int]:
    return sorted(one.memory for one in followed.published().devices)


def test_slices_are_followed(cluster: Cluster, followed: Slices) -> None:
    assert followed.listed.wait(LIMIT)
    assert sizes(followed) == []
    path = f"{DRA}/resourceslices"
    cluster.post(path, published("node-1", "32Gi", "16Gi"))
    cluster.post(path, published("other", "1Gi", driver="example.com"))
    eventually(lambda: sizes(followed) == [16384, 32768])
    now = cluster.read(f"{path}/node-1")
    now["spec"]["devices"].pop()
    now["spec"]["pool"]["generation"] = 2
    cluster.admin.ask("writing", "PUT", f"{path}/node-1", now)
    eventually(
        lambda: followed.published().devices == (Device("share", 32768, "", "GPU-0", "mps"),)
    )
    cluster.post(path, published("node-2", "8Gi"))
    late = Slices(cluster.admin)  # which lists them, in parts
    threading.Thread(target=late.follow, daemon=True).start()
    assert late.listed.wait(LIMIT)
    assert sizes(late) == [8192, 32768]
    late.end()
    cluster.remove(f"{path}/node-1")
    eventually(lambda: sizes(followed) == [8192])


def test_a_percentage_is_of_what_is_published(cluster: Cluster) -> None:
    cluster.replica("percent", kubeconfig=cluster.least()).wait()
    error = cluster.refusal(HALF)
    assert error.status == 422
    assert "50 can't be: no node pub" in str(error)
    cluster.post(f"{DRA}/resourceslices", published("node-3", "32Gi", "16Gi"))
    eventually(lambda: _asked(cluster), {"of-16384": "8Gi", "of-32768": "16Gi"})


def _asked(cluster: Cluster) -> dict[str, str]:
    """Return what a pod for half of a GPU's memory asks for, by size."""
    try:
        (claim,) = cluster.pod(HALF)["spec"]["resourceClaims"]
    except ApiError:
        return {}
    template = cluster.templates()[claim["resourceClaimTemplateName"]]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    ways = request["firstAvailable"]
    return {way["name"]: way["capacity"]["requests"]["memory"] for way in ways}


class Forgetful:
    """An API that has forgotten the past at the first watch, and fails at the second list."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.followed = Slices(self)  # type: ignore[arg-type]

    def ask(self, *_words: Any, **_more: Any) -> Json:
        self.asked.append("list")
        if self.asked.count("list") == 2:
            raise ApiError("listing", "503 busy", status=503)
        return {"items": [published("node-1", "32Gi")], "metadata": {"resourceVersion": "7"}}

    def events(self, *_words: Any, **_more: Any) -> Iterator[Json]:
        self.asked.append("watch")
        if self.asked.count("watch") > 1:
            assert sizes(self.followed) == [32768]  # what was known stays known meanwhile
            self.followed.end()
        yield {}
        status = {"code": 410, "message": "too old resource version"}
        yield {"type": "ERROR", "object": status}


def test_slices_are_listed_again_where_the_past_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "PAUSE", 0)
    api = Forgetful()
    api.followed.follow()
    assert api.asked == ["list", "watch", "list", "list", "watch"]
