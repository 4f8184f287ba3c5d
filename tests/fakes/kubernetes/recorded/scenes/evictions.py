# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Evictions: of pods that are gone or others by now, against budgets, and in namespaces that end."""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes.recorded.steps import ADMIN, Json
from tests.fakes.kubernetes.recorded.words import (
    DEFAULT,
    NODE,
    account,
    delete,
    get,
    made,
    named,
    node,
    patch,
    pod,
    post,
    space,
)

PODS = f"{DEFAULT}/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
RUNS = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def eviction(name: str, uid: str = "", within: str = "default", **options: Any) -> Json:
    wanted = {**({"preconditions": {"uid": uid}} if uid else {}), **options}
    return named("Eviction", name, "policy/v1", within, deleteOptions=wanted)


def evict(name: str, uid: str = "", *show: str, **options: Any) -> Any:
    return post(ADMIN, f"{PODS}/{name}/eviction", eviction(name, uid, **options), *show)


def budget(name: str) -> list[Any]:
    """Make a budget that allows nothing, as its controller writes it."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    status = {"status": {**counts, "observedGeneration": 1}}
    return [
        *made(named("PodDisruptionBudget", f"one-{name}", "policy/v1", "default", spec=spec)),
        patch(ADMIN, f"{BUDGETS}/one-{name}/status", status),
    ]


def running(name: str) -> list[Any]:
    return [
        *made(pod(name, NODE, meta={"labels": {"app": name}})),
        patch(ADMIN, f"{PODS}/{name}/status", RUNS, keep=name),
    ]


EVICTED = [
    *made(node(NODE), account()),
    *running("a"), *running("b"), *running("c"), *budget("b"),
    evict("none"),
    evict("none", "1-2"),
    evict("a", "1-2"),
    evict("a", "$a.metadata.uid", gracePeriodSeconds=5),
    get(ADMIN, f"{PODS}/a"),
    evict("a", "$a.metadata.uid"),
    evict("b", "$b.metadata.uid"),
    evict("b", "1-2"),
    evict("b"),
    evict("c", "$c.metadata.uid", gracePeriodSeconds=0),
    get(ADMIN, f"{PODS}/c"),
    post(ADMIN, f"{PODS}/b/eviction", {**eviction("b"), "apiVersion": "policy/v1beta1"}),
    get(ADMIN, "/api/v1/pods", where={"fieldSelector": f"spec.nodeName={NODE}"}),
]  # fmt: skip
ENDING = [
    *made(node(NODE), space("old"), account(space="old")),
    *made(pod("a", NODE, space="old")),
    delete(ADMIN, "/api/v1/namespaces/old", keep="gone"),
    post(ADMIN, "/api/v1/namespaces/old/pods/a/eviction", eviction("a", within="old"), until=403),
    post(ADMIN, "/api/v1/namespaces/old/pods", pod("b", space="old")),
    get(ADMIN, "/api/v1/namespaces/old", "status"),
]
PODS_MADE = [
    *made(node(NODE)),
    post(ADMIN, PODS, pod("a")),
    *made(account()),
    post(ADMIN, PODS, pod("a"), "spec.nodeName", "status.phase", until=201),
    post(ADMIN, PODS, {**pod("x"), "metadata": {"generateName": "try-"}}, keep="x"),
    post(ADMIN, PODS, pod("b", container={"resources": {"limits": {"nvidia.com/gpu": 1}}})),
    post(ADMIN, PODS, pod("c", container={"resources": {"limits": {"nvidia.com/gpu": "1.5"}}})),
    post(ADMIN, PODS, named("Pod", "d", space="default", spec={"containers": []})),
    delete(ADMIN, f"{PODS}/a", {"gracePeriodSeconds": 0, "preconditions": {"uid": "1-2"}}),
    delete(ADMIN, f"{PODS}/a", {"gracePeriodSeconds": 0}),
    delete(ADMIN, f"{PODS}/a", {"gracePeriodSeconds": 0}),
    get(ADMIN, PODS, where={"labelSelector": "app=x"}),
]  # fmt: skip
SCENES = {"evictions": EVICTED, "namespace-that-ends": ENDING, "pods-made": PODS_MADE}
