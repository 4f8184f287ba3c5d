# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claim templates as the webhook's account makes, stamps, lists and removes them."""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes.recorded.steps import ADMIN, YAML, Json
from tests.fakes.kubernetes.recorded.words import (
    delete,
    get,
    made,
    manifest,
    named,
    patch,
    post,
    space,
)

WEBHOOK = "account:gpu-node/gpu-node-webhook"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates"
HERE = TEMPLATES.format("default")
LEFT = ("Deployment", "MutatingWebhookConfiguration", "Service", "PodDisruptionBudget")
LABEL = {"app.kubernetes.io/managed-by": "gpu-node-webhook"}
COUNT = "count/resourceclaimtemplates.resource.k8s.io"


def template(name: str, within: str = "default", **more: Any) -> Json:
    exactly = {"deviceClassName": "share.gpu.node", "capacity": {"requests": {"memory": "3000Mi"}}}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    meta = {"labels": LABEL, "annotations": {"gpu.node/last-used": "2027-01-15T08:00:00Z"}}
    return named("ResourceClaimTemplate", name, "resource.k8s.io/v1", within, meta=meta,
                 spec=spec, **more)  # fmt: skip


def stamp(of: str) -> Json:
    used = {"gpu.node/last-used": "2027-01-16T08:00:00Z"}
    return {"metadata": {"resourceVersion": f"${of}.metadata.resourceVersion", "annotations": used}}


def seen(of: str) -> Json:
    same = {key: f"${of}.metadata.{key}" for key in ("uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": same}


KEPT = [
    *made(*manifest("dra/webhook", without=LEFT)),
    get(WEBHOOK, f"{HERE}/hami-1", until=404),
    post(WEBHOOK, HERE, template("hami-1"), "spec", kind=YAML, keep="one"),
    post(WEBHOOK, HERE, template("hami-1"), kind=YAML),
    get(WEBHOOK, f"{HERE}/hami-1", "spec"),
    patch(WEBHOOK, f"{HERE}/hami-1", stamp("one"), keep="two"),
    patch(WEBHOOK, f"{HERE}/hami-1", stamp("one")),
    patch(WEBHOOK, f"{HERE}/hami-1", {"spec": {"metadata": {"labels": {"a": "b"}}}}),
    patch(WEBHOOK, f"{HERE}/none", stamp("one")),
    post(WEBHOOK, HERE, template("hami-2"), kind=YAML),
    get(WEBHOOK, TEMPLATES.replace("namespaces/{}/", ""), where={
        "labelSelector": "app.kubernetes.io/managed-by=gpu-node-webhook", "limit": "1"}, keep="list"),
    get(WEBHOOK, TEMPLATES.replace("namespaces/{}/", ""), where={
        "labelSelector": "app.kubernetes.io/managed-by=gpu-node-webhook", "limit": "1",
        "continue": "$list.metadata.continue"}),
    delete(WEBHOOK, f"{HERE}/hami-1", seen("one")),
    delete(WEBHOOK, f"{HERE}/hami-1", seen("two")),
    delete(WEBHOOK, f"{HERE}/hami-1", seen("two")),
]  # fmt: skip
REFUSED = [
    *made(space("small"), space("going")),
    *made(named("ResourceQuota", "q", space="small", spec={"hard": {COUNT: "0"}})),
    patch(ADMIN, "/api/v1/namespaces/small/resourcequotas/q/status",
          {"status": {"hard": {COUNT: "0"}, "used": {COUNT: "0"}}}),
    post(ADMIN, TEMPLATES.format("small"), template("hami-1", "small"), until=403),
    delete(ADMIN, "/api/v1/namespaces/going", keep="gone"),
    post(ADMIN, TEMPLATES.format("going"), template("hami-1", "going"), until=403),
    post(ADMIN, TEMPLATES.format("none"), template("hami-1", "none")),
    get(ADMIN, f"{TEMPLATES.format('none')}/hami-1"),
]  # fmt: skip
LIMITS = [
    *made(*manifest("dra/webhook", without=LEFT), space("limited")),
    *made(named("LimitRange", "caps", space="limited", spec={
        "limits": [{"type": "Container", "max": {"nvidia.com/gpumem": "8000"}}]})),
    *made(named("ResourceQuota", "team", space="limited", spec={
        "hard": {"requests.nvidia.com/gpumem": "16000"}})),
    *(get(WEBHOOK, f"/api/v1/namespaces/{within}/{kind}", until=200)
      for within in ("default", "limited", "none") for kind in ("limitranges", "resourcequotas")),
    get(WEBHOOK, "/apis/resource.k8s.io/v1/deviceclasses"),
]  # fmt: skip
SCENES = {"templates-kept": KEPT, "templates-refused": REFUSED, "templates-limits": LIMITS}
