# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Limits of namespaces as the webhook reads and applies them."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_cluster.hami.errors import Refused
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.webhook import limits
from gpu_cluster.webhook.namespaces import MAX_AGE, RIGHTS, Namespaces
from gpu_plugin._shared._cluster.machine.api import ApiError

from tests.fakes.cluster.hami_pods import MPS_NODES, SETTINGS, Json, pod
from tests.fakes.cluster.hami_pods import limits as amounts

POD = pod(amounts(gpu=1, gpumem=3000))
TEMPLATES = mutate(POD, SETTINGS, MPS_NODES).templates
MEMORY = "nvidia.com/gpumem"


def limit_range(**fields: Any) -> Json:
    limit = {"type": "Container", **fields}
    return {"metadata": {"name": "caps"}, "spec": {"limits": [limit]}}


def quota(*keys: str, **spec: Any) -> Json:
    return {"metadata": {"name": "team"}, "spec": {"hard": dict.fromkeys(keys, "9"), **spec}}


class Access:
    """An API with these objects, by the last word of their path."""

    def __init__(self, **objects: list[Json]) -> None:
        self.objects, self.asked, self.now = objects, list[str](), 0.0

    def ask(self, _doing: str, _method: str, path: str, **_options: Any) -> Json:
        self.asked.append(path)
        return {"items": self.objects.get(path.rpartition("/")[2], [])}


def check(access: Access, namespace: str = "team", namespaces: Namespaces | None = None) -> None:
    api: Any = access
    (namespaces or Namespaces(api, SETTINGS)).check(namespace, POD, TEMPLATES)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ({"limitranges": [limit_range(max={MEMORY: "2k"})]}, "LimitRange caps allows at most 2k"),
        ({"limitranges": [limit_range(min={MEMORY: "1"})]}, "has a minimum of it"),
        ({"resourcequotas": [quota(f"requests.{MEMORY}")]}, "ResourceQuota team limits requests"),
        ({"resourcequotas": [quota("requests.nvidia.com/gpu")]}, "which counts no claims"),
        (
            {
                "resourcequotas": [
                    quota("requests.nvidia.com/gpu"),
                    quota(
                        "share.gpu.node.deviceclass.resource.k8s.io/devices", scopes=["BestEffort"]
                    ),
                ]
            },
            "which counts no claims",
        ),
    ],
)
def test_a_limit_that_does_not_allow_a_pod_refuses_it(objects: Any, words: str) -> None:
    with pytest.raises(Refused, match=words):
        check(Access(**objects))


@pytest.mark.parametrize(
    "objects",
    [
        {},
        {"limitranges": [limit_range(max={MEMORY: "3000", "cpu": "1"}, min={MEMORY: "0"})]},
        {"limitranges": [{"metadata": {"name": "empty"}, "spec": {}}]},
        {"resourcequotas": [quota("pods", "requests.nvidia.com/mig-1g.10gb")]},
        {
            "resourcequotas": [
                quota("requests.nvidia.com/gpu"),
                quota("share.gpu.node.deviceclass.resource.k8s.io/devices"),
            ]
        },
    ],
)
def test_a_limit_that_allows_a_pod_admits_it(objects: Any) -> None:
    check(Access(**objects))


def test_limits_are_read_once_for_the_pods_of_a_deployment() -> None:
    access = Access(resourcequotas=[quota("pods")])
    api: Any = access
    namespaces = Namespaces(api, SETTINGS, lambda: access.now)
    for _pod in range(10):
        check(access, namespaces=namespaces)
    assert len(access.asked) == 3
    access.now = MAX_AGE
    access.objects = {"limitranges": [limit_range(max={MEMORY: "1"})]}
    with pytest.raises(Refused):
        check(access, namespaces=namespaces)
    check(Access(), "other")


def test_the_number_of_namespaces_that_are_known_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MOST_NAMESPACES", 3)
    access: Any = Access()
    namespaces = Namespaces(access, SETTINGS)
    for number in range(10):
        check(access, f"team-{number}", namespaces)
    assert len(namespaces._cache) <= 3


def test_without_the_rights_a_pod_is_refused_with_what_to_apply() -> None:
    class Forbidden(Access):
        def ask(self, doing: str, *_args: Any, rights: str = "", **_options: Any) -> Json:
            raise ApiError(doing, "forbidden", status=403, hint=rights)

    with pytest.raises(ApiError) as refusal:
        check(Forbidden())
    assert refusal.value.hint == RIGHTS
