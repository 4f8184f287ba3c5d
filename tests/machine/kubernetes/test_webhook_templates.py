# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Templates at an API server: each shape of them, reuse, their end, and what stands in the way."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.published import Device, Published
from gpu_cluster.webhook.shared import CONFIGURATIONS
from gpu_cluster.webhook.templates import Templates
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.fakes.cluster.hami_pods import MIG_NODES, OTHER_NODES, SETTINGS, limits, pod
from tests.fakes.kubernetes.webhook_cluster import DRA, NAME, Cluster
from tests.support.waiting import eventually

HOUR, TTL = 3600.0, 86400.0
NOW = 1_800_000_000.0
SPACE = "default"
SHARE = pod(limits(gpu=1, gpumem=3000, gpucores=30))
ODD = "RTX 6000/8000 (x) +_.:"
WISHES: list[dict[str, Any]] = [
    {"nvidia.com/use-gputype": "A100,V100", "nvidia.com/nouse-gputype": f"1080,{ODD}"},
    {"nvidia.com/use-gpuuuid": f"GPU-0,{ODD}", "nvidia.com/nouse-gpuuuid": "GPU-1"},
    {"nvidia.com/numa-bind": "true"},
    {"nvidia.com/vgpu-mode": "mig", "nvidia.com/nouse-gpuuuid": "GPU-1"},
    {"nvidia.com/use-gputype": ",".join(f"{n:(>64}" for n in range(32))},
]
SIZES = (*range(1000, 6000, 1000), 1 << 14, 1 << 21, 3 << 20)
MANY = Published(tuple(Device("share", size, "x", "g", "none") for size in SIZES))


@pytest.fixture(scope="module")
def unasked(webhook_cluster: Cluster) -> None:
    """Nobody serves the webhook here, and no pod waits for it."""
    webhook_cluster.remove(f"{CONFIGURATIONS}/{NAME}")


@pytest.fixture
def templates(cluster: Cluster, unasked: None) -> Templates:
    for name in cluster.templates():
        cluster.remove(path(name))
    return Templates(cluster.admin, TTL)


def path(name: str, space: str = SPACE) -> str:
    return f"{DRA}/namespaces/{space}/resourceclaimtemplates/{name}"


AMOUNTS: list[dict[str, int]] = [
    {"gpu": 1, "gpumem": 3000, "gpucores": 30, "priority": 0},
    {"gpu": 2, "gpumem": 3000},
    {"gpu": 2, "gpumem": 3000, "gpucores": 100},
    {"gpu": 1, "gpumem": 10240, "gpucores": 10},
    {"gpu": 1, "gpumem": 2 << 20},
]


@pytest.mark.parametrize("published", [OTHER_NODES, MIG_NODES, MANY], ids=["other", "mig", "many"])
def test_the_api_server_takes_each_template_and_keeps_it_as_it_is(
    templates: Templates, cluster: Cluster, published: Published
) -> None:
    for amounts, wishes in itertools.product(AMOUNTS, WISHES):
        if amounts == {"gpu": 2, "gpumem": 3000} and published is MIG_NODES:
            wishes = {**wishes, "nvidia.com/vgpu-mode": "mig"}  # no shares are published there
        one = pod(limits(**amounts), annotations=wishes)
        (template,) = mutate(one, SETTINGS, published).templates
        assert templates.ensure(SPACE, template, NOW)
        assert cluster.templates()[template.name]["spec"]["spec"] == template.spec["spec"]
        assert not templates.ensure(SPACE, template, NOW)  # it is ours, whatever was added to it
        cluster.remove(path(template.name))


def test_a_template_for_a_percentage_is_reused(templates: Templates) -> None:
    for published, percent in itertools.product((OTHER_NODES, MANY), (33, 50)):
        one = pod(limits(gpu=2, gpumem_percentage=percent), annotations=WISHES[0])
        (template,) = mutate(one, SETTINGS, published).templates
        assert templates.ensure(SPACE, template, NOW)
        assert not templates.ensure(SPACE, template, NOW)


def stamped(cluster: Cluster, name: str) -> str:
    return str(cluster.templates()[name]["metadata"]["annotations"]["gpu.node/last-used"])


def test_a_template_that_is_used_is_stamped_now_and_then(
    templates: Templates, cluster: Cluster
) -> None:
    (one,) = mutate(SHARE, SETTINGS, OTHER_NODES).templates
    templates.ensure(SPACE, one, NOW)
    first = cluster.templates()[one.name]
    templates.ensure(SPACE, one, NOW + TTL / 4)
    assert cluster.templates()[one.name] == first
    templates.ensure(SPACE, one, NOW + TTL / 4 + 1)
    assert stamped(cluster, one.name) == "2027-01-15T14:00:01Z"


@pytest.mark.attack("template-of-somebody-else")
def test_an_unused_template_goes_and_nothing_else(templates: Templates, cluster: Cluster) -> None:
    (ours,) = mutate(SHARE, SETTINGS, OTHER_NODES).templates
    (used,) = mutate(pod(limits(gpu=1, gpumem=1)), SETTINGS, OTHER_NODES).templates
    for one in (ours, used):
        templates.ensure(SPACE, one, NOW)
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": "hami-somebody-elses",
            "labels": {"app.kubernetes.io/managed-by": "gpu-node-webhook"},
            "annotations": {"gpu.node/last-used": "2020-01-01T00:00:00Z"},
        },
        "spec": ours.spec,
    }
    cluster.post(f"{DRA}/namespaces/{SPACE}/resourceclaimtemplates", body)
    claim = {"name": "g", "resourceClaimTemplateName": used.name}
    cluster.pod(
        pod(
            {"name": "c", "image": "x", "resources": {"claims": [{"name": "g"}]}},
            resourceClaims=[claim],
        )
    )
    assert templates.collect(NOW + TTL) == 0
    assert templates.collect(NOW + TTL + 1) == 1
    assert set(cluster.templates()) == {used.name, "hami-somebody-elses"}


def test_an_admission_in_flight_keeps_its_template(
    templates: Templates, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stamped after it was looked at and before it is removed: it stays."""
    (one,) = mutate(SHARE, SETTINGS, OTHER_NODES).templates
    templates.ensure(SPACE, one, NOW)
    other, later = Templates(cluster.admin, TTL), NOW + TTL + 1
    delete = templates._delete

    def after_another_admission(template: dict[str, Any]) -> int:
        assert not other.ensure(SPACE, one, later)
        return delete(template)

    monkeypatch.setattr(templates, "_delete", after_another_admission)
    assert templates.collect(later) == 0
    assert one.name in cluster.templates()


def test_removed_in_the_middle_of_an_admission(
    templates: Templates, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = mutate(SHARE, SETTINGS, OTHER_NODES).templates
    templates.ensure(SPACE, one, NOW)
    touch = templates._touch

    def gone(*words: Any) -> None:
        monkeypatch.undo()
        cluster.remove(path(one.name))
        touch(*words)

    monkeypatch.setattr(templates, "_touch", gone)
    assert templates.ensure(SPACE, one, NOW + TTL)
    assert stamped(cluster, one.name) == "2027-01-16T08:00:00Z"


@pytest.mark.attack("template-of-somebody-else")
def test_a_template_with_another_content_is_not_used(
    templates: Templates, cluster: Cluster
) -> None:
    (one,) = mutate(SHARE, SETTINGS, OTHER_NODES).templates
    (other,) = mutate(pod(limits(gpu=1, gpumem=9)), SETTINGS, OTHER_NODES).templates
    meta = {"name": one.name, "labels": {"app.kubernetes.io/managed-by": "gpu-node-webhook"}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    body = {**kind, "metadata": meta, "spec": other.spec}
    cluster.post(f"{DRA}/namespaces/{SPACE}/resourceclaimtemplates", body)
    with pytest.raises(ApiError, match="one is there that has another content") as told:
        templates.ensure(SPACE, one, NOW)
    assert told.value.status == 403
    assert templates.collect(cluster.now() + 2 * TTL) == 0  # nor is it ours to remove


def test_a_quota_is_told(templates: Templates, cluster: Cluster) -> None:
    space = "small"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    hard = {"count/resourceclaimtemplates.resource.k8s.io": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    cluster.post(f"/api/v1/namespaces/{space}/resourcequotas", {**quota, "spec": {"hard": hard}})
    status = {"hard": hard, "used": hard}  # which a controller writes in a cluster
    at = f"/api/v1/namespaces/{space}/resourcequotas/q/status"
    kind = "application/merge-patch+json"
    cluster.admin.ask("writing", "PATCH", at, {"status": status}, kind=kind)
    (one,) = mutate(SHARE, SETTINGS, OTHER_NODES).templates

    def refused() -> ApiError | None:
        try:
            templates.ensure(space, one, NOW)
        except ApiError as error:
            return error
        cluster.remove(path(one.name, space))  # it was not in force yet
        return None

    told = eventually(refused)
    assert told is not None
    assert "exceeded quota" in str(told)
    assert told.status == 403


def test_a_namespace_that_goes_or_is_none(templates: Templates, cluster: Cluster) -> None:
    space = "going"
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    cluster.remove(f"/api/v1/namespaces/{space}")
    (one,) = mutate(SHARE, SETTINGS, OTHER_NODES).templates
    for where, status in ((space, 403), ("none", 404)):
        with pytest.raises(ApiError) as told:
            templates.ensure(where, one, NOW)
        assert told.value.status == status
