# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims and pods as the Node authorizer shows them: those of the node's pods, and nothing of what is gone."""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes.recorded.steps import ADMIN, Json
from tests.fakes.kubernetes.recorded.words import (
    CLAIMS,
    DEFAULT,
    KUBELET,
    NEIGHBOUR,
    NODE,
    OTHER,
    account,
    delete,
    get,
    made,
    named,
    node,
    patch,
    pod,
    post,
)

RESOURCE = "resource.k8s.io/v1"
PODS = f"{DEFAULT}/pods"
AT_ONCE = {"gracePeriodSeconds": 0}


def claim(name: str) -> Json:
    exactly = {"deviceClassName": "gpu.gpu.node"}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return named("ResourceClaim", name, RESOURCE, "default", spec=spec)


def using(name: str, claim_name: str, on: str, **more: Any) -> Json:
    claims = [{"name": "gpu", "resourceClaimName": claim_name}]
    of_main = {"resources": {"claims": [{"name": "gpu"}]}}
    return pod(name, on, resourceClaims=claims, container=of_main, **more)


OWN = [
    *made(node(NODE), node(OTHER), account(), claim("mine"), claim("theirs"), claim("nobodys")),
    *made(using("a", "mine", NODE), using("b", "theirs", OTHER)),
    get(KUBELET, f"{CLAIMS}/mine", "spec", until=200),
    get(KUBELET, f"{CLAIMS}/theirs"),
    get(NEIGHBOUR, f"{CLAIMS}/theirs", until=200),
    get(KUBELET, f"{CLAIMS}/nobodys"),
    get(KUBELET, f"{CLAIMS}/none"),
    get(KUBELET, CLAIMS),
    get(KUBELET, "/apis/resource.k8s.io/v1/resourceclaims"),
    post(KUBELET, CLAIMS, claim("new")),
    delete(KUBELET, f"{CLAIMS}/mine"),
    patch(KUBELET, f"{CLAIMS}/mine", {"metadata": {"labels": {"a": "b"}}}),
    get(ADMIN, f"{CLAIMS}/none"),
    get(ADMIN, CLAIMS),
    get(KUBELET, f"{PODS}/a", until=200),
    get(KUBELET, f"{PODS}/b"),
    get(KUBELET, f"{PODS}/none"),
    get(KUBELET, PODS, where={"fieldSelector": f"spec.nodeName={NODE}"}),
]
# What a driver meets that holds a claim whose pod has ended: no answer says that the claim is gone.
GONE = [
    *made(node(NODE), account(), claim("mine"), claim("other"), using("a", "mine", NODE)),
    *made(using("b", "other", NODE)),
    get(KUBELET, f"{CLAIMS}/mine", until=200),
    get(KUBELET, f"{CLAIMS}/other", until=200),
    delete(ADMIN, f"{CLAIMS}/other"),
    get(KUBELET, f"{CLAIMS}/other", until=404),
    delete(ADMIN, f"{PODS}/a", AT_ONCE),
    get(KUBELET, f"{CLAIMS}/mine", until=403),
    delete(ADMIN, f"{CLAIMS}/mine"),
    get(KUBELET, f"{CLAIMS}/mine"),
    get(ADMIN, f"{CLAIMS}/mine"),
    delete(ADMIN, f"{PODS}/b", AT_ONCE),
    get(KUBELET, f"{CLAIMS}/other", until=403),
]
WRITTEN = [
    *made(node(NODE), account(), claim("mine")),
    patch(ADMIN, f"{CLAIMS}/mine", {"spec": {"devices": {"requests": []}}}),
    post(ADMIN, CLAIMS, claim("mine")),
    post(ADMIN, CLAIMS, named("ResourceClaim", "Not.Valid_", RESOURCE, "default", spec={})),
    post(ADMIN, CLAIMS, {**claim("x"), "more": 1}, where={"fieldValidation": "Strict"}),
    post(ADMIN, CLAIMS, claim("dry"), where={"dryRun": "All"}),
    get(ADMIN, f"{CLAIMS}/dry"),
    post(ADMIN, CLAIMS, {**claim("x"), "metadata": {"generateName": "made-"}}),
    post(ADMIN, CLAIMS.replace("default", "none"), claim("x")),
    post(ADMIN, CLAIMS.replace("default", "none"), named("ResourceClaim", "x", RESOURCE, "none",
                                                         spec=claim("x")["spec"])),
    get(ADMIN, f"{CLAIMS.replace('default', 'none')}/x"),
]  # fmt: skip
SCENES = {"claims-of-a-node": OWN, "claims-that-are-gone": GONE, "claims-written": WRITTEN}
