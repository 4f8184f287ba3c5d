# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pods wait for the webhook, where none answers: that shows in what becomes of them."""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes.recorded.steps import ADMIN, PATCH, Json, Step
from tests.fakes.kubernetes.recorded.words import (
    account,
    get,
    made,
    manifest,
    named,
    patch,
    pod,
    post,
    space,
)

PODS = "/api/v1/namespaces/{}/pods"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
IGNORED = {"hami.io/webhook": "ignore"}
NOWHERE = {"url": "https://127.0.0.1:1/nobody"}


def asking(name: str, within: str = "default", where: str = "limits", **amounts: Any) -> Json:
    """Return a pod that asks for resources of NVIDIA's names."""
    limits = {f"nvidia.com/{key.replace('_', '-')}": one for key, one in amounts.items()}
    return pod(name, space=within, container={"resources": {where: limits}})


def tried(one: Json, **more: Any) -> Step:
    where = PODS.format(one["metadata"]["namespace"])
    return post(ADMIN, where, one, **more)


def hook() -> Json:
    """Return our configuration, which leads nowhere."""
    (found,) = [one for one in manifest("dra/webhook") if one["kind"].startswith("Mutating")]
    (ours,) = found["webhooks"]
    return {**found, "webhooks": [{**ours, "clientConfig": NOWHERE}]}


def init(one: Json) -> Json:
    plain = {"name": "main", "image": "app"}
    asks = {**one["spec"]["containers"][0], "name": "first"}
    return {**one, "spec": {"containers": [plain], "initContainers": [asks]}}


def labelled(one: Json) -> Json:
    return {**one, "metadata": {**one["metadata"], "labels": IGNORED}}


def chosen(one: Json) -> Json:
    wish = {"nvidia.com/use-gputype": "A100"}
    return {**one, "metadata": {**one["metadata"], "annotations": wish}}


def scheduled(one: Json) -> Json:
    return {**one, "spec": {**one["spec"], "schedulerName": "hami-scheduler"}}


ASKED = [
    *made(space("gpu-node"), named("Namespace", "left-out", meta={"labels": IGNORED})),
    *made(*(account(space=name) for name in ("default", "kube-system", "gpu-node", "left-out"))),
    post(ADMIN, HOOKS, hook()),
    tried(asking("memory", gpumem=1), until=500),
    tried(asking("whole", gpu=1), keep="whole"),
    tried(chosen(asking("chosen", gpu=1))),
    tried(scheduled(asking("scheduled"))),
    tried(asking("cores", gpucores=1)),
    tried(asking("percent", gpumem_percentage=50)),
    tried(asking("low", priority=1)),
    tried(init(asking("first", gpumem=1))),
    tried(asking("plain"), keep="plain"),
    tried(asking("mig", **{"mig-1g.10gb": 1}), keep="mig"),
    tried(asking("own", "kube-system", gpu=1, gpumem=1), keep="own"),
    tried(asking("own", "gpu-node", gpu=1, gpumem=1), keep="ours"),
    tried(asking("own", "left-out", gpu=1, gpumem=1), keep="out"),
    tried(labelled(asking("left-out", gpu=1, gpumem=1)), keep="left"),
    patch(ADMIN, f"{HOOKS}/gpu-node-webhook", [
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}], kind=PATCH),
    tried(asking("memory", gpumem=1), until=201),
    get(ADMIN, f"{PODS.format('default')}/memory", "spec.resourceClaims"),
]  # fmt: skip
OURS = [one for one in manifest("dra/webhook") if one["kind"].startswith("Mutating")]
OF_A_SERVICE = [
    *made(space("gpu-node"), account(space="default"), *OURS),
    tried(asking("memory", gpumem=1), until=500),
]
SCENES = {"webhook-without-its-service": OF_A_SERVICE, "webhook-that-does-not-answer": ASKED}
