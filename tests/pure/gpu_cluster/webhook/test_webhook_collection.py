# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Unused templates, where a tenant makes it hard to look for them."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.webhook import limits
from gpu_cluster.webhook.budget import Budget, OverLimit
from gpu_cluster.webhook.templates import OWNER, OWNER_LABEL, STAMP, Templates
from gpu_plugin._shared._cluster.machine.api import METADATA, ApiError, TooLong

from tests.fakes.cluster.hami_pods import MPS_NODES, SETTINGS, pod
from tests.fakes.cluster.hami_pods import limits as amounts

Json = dict[str, Any]
TTL, LATER = 86400.0, 1_900_000_000.0
MIB = 1 << 20


class Api:
    """An API with namespaces that have old templates, and one whose pods are as long as they may be.

    ``longest`` is what the client reads of an answer. ``size`` is of a pod, ``sizes`` of a template's metadata.
    """

    def __init__(self, size: int, longest: int = 8 * MIB) -> None:
        self.size, self.longest = size, longest
        self.objects: dict[str, Json] = {}
        self.accepted: list[str] = []

    def add(self, space: str, number: int) -> None:
        (made,) = mutate(pod(amounts(gpu=1, gpumem=100 + number)), SETTINGS, MPS_NODES).templates
        meta = {"name": made.name, "namespace": space, "uid": made.name, "resourceVersion": "1"}
        meta |= {
            "labels": {OWNER_LABEL: OWNER},
            "annotations": {STAMP: "2020-01-01T00:00:00Z"},
        }  # type: ignore[dict-item]
        path = f"/namespaces/{space}/resourceclaimtemplates/{made.name}"
        self.objects[path] = {"metadata": meta, "spec": made.spec}

    def ask(self, doing: str, method: str, path: str, *_body: Any, **how: Any) -> Any:
        name = path.removeprefix("/apis/resource.k8s.io/v1")
        if "limit" not in how.get("query", {}):
            if name not in self.objects:
                raise ApiError(doing, "no", status=404)
            return self.objects.pop(name) if method == "DELETE" else self.objects[name]
        if "/pods" not in path:
            self.accepted.append(how["accept"])
            return self._part(doing, list(self.objects.values()), 1000, how["query"])
        pods = [{"spec": {}, "status": {}}] * 34
        return self._part(doing, pods, self.size if "/hostile/" in path else 9, how["query"])

    def _part(self, doing: str, every: list[Json], size: int, query: Json) -> Json:
        first, limit = int(query.get("continue", 0)), int(query["limit"])
        some = every[first : first + limit]
        if len(some) * size > self.longest:
            raise TooLong(doing, "the answer is longer than 8 MiB")
        more = {"continue": str(first + limit)} if first + limit < len(every) else {}
        return {"metadata": more, "items": some}


def collected(api: Api, budget: Budget | None = None) -> tuple[int, Templates]:
    templates = Templates(api, TTL, budget)  # type: ignore[arg-type]
    return templates.collect(LATER), templates


@pytest.mark.attack("templates-kept-for-ever")
def test_long_pods_of_one_namespace_keep_no_templates() -> None:
    api = Api(MIB // 4 + 9)
    for space in ("hostile", "team"):
        api.add(space, 0)
    removed, templates = collected(api)
    assert (removed, templates.failed, api.objects) == (2, {}, {})
    assert set(api.accepted) == {METADATA}  # so that no specification makes the list long


@pytest.mark.attack("templates-kept-for-ever")
def test_a_namespace_that_cannot_be_looked_at_ends_nothing_and_is_named() -> None:
    api = Api(9 * MIB)
    for space in ("a", "hostile", "team"):
        api.add(space, 0)
    removed, templates = collected(api)
    assert removed == 2
    assert list(templates.failed) == ["hostile"]
    assert "longer than 8 MiB" in str(templates.failed["hostile"])
    assert [one["metadata"]["namespace"] for one in api.objects.values()] == ["hostile"]


def test_a_round_removes_so_many_of_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_REMOVED", 5)
    api = Api(9)
    for number in range(12):
        api.add("team", number)
    assert [collected(api)[0] for _each in range(4)] == [5, 5, 2, 0]


@pytest.mark.attack("templates-kept-for-ever")
def test_a_round_counts_what_namespaces_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_IN_NAMESPACE", 3)
    api, budget = Api(9 * MIB), Budget()
    for number in range(3):
        api.add("hostile", number)
    collected(api, budget)
    with pytest.raises(OverLimit, match="hostile has 3 ResourceClaimTemplates"):
        budget.make("hostile")
    budget.make("team")


def test_what_only_says_that_it_is_ours_stays() -> None:
    api = Api(9)
    api.add("team", 0)
    (one,) = api.objects.values()
    one["spec"] = {"spec": {"devices": {}}}
    assert collected(api)[0] == 0
    assert api.objects
