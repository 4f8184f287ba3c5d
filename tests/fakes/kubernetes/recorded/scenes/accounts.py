# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the roles of our manifests let their accounts do, and what they do not."""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes.recorded.scenes.evictions import eviction
from tests.fakes.kubernetes.recorded.scenes.slices import OURS, slice_of
from tests.fakes.kubernetes.recorded.steps import ADMIN, STRATEGIC, Json, Step
from tests.fakes.kubernetes.recorded.words import (
    CLAIMS,
    DEFAULT,
    NODE,
    OTHER,
    SLICES,
    account,
    delete,
    get,
    made,
    manifest,
    named,
    node,
    patch,
    pod,
    post,
    put,
    space,
    watch,
)

DRAIN = "account:kube-system/gpu-node-drain"
LABELS = f"account:node-feature-discovery/gpu-node-labels-{NODE}"
DRA = f"account:gpu-node/gpu-node-dra-{NODE}"
WEBHOOK = "account:gpu-node/gpu-node-webhook"
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
NODES, PODS, EVENTS = "/api/v1/nodes", "/api/v1/pods", f"{DEFAULT}/events"
FEATURES = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/node-feature-discovery/nodefeatures"
FEATURE = f"{FEATURES}/nvidia-features-for-{NODE}"
SECRET = "/api/v1/namespaces/gpu-node/secrets/gpu-node-webhook-tls"
HOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpu-node-webhook"
MORE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["podtemplates"],
}
ONLY = {"fieldSelector": f"metadata.name={NODE}"}
LABEL = {"metadata": {"labels": {"nvidia.com/gpu.count": "8"}}}


def crd() -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "NodeFeature", "plural": "nodefeatures", "singular": "nodefeature"}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "nfd.k8s-sigs.io", "scope": "Namespaced", "versions": [version]}
    spec["names"] = {**names, "listKind": "NodeFeatureList"}
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements"}
    meta = {"annotations": approved}
    return named("CustomResourceDefinition", "nodefeatures.nfd.k8s-sigs.io",
                 "apiextensions.k8s.io/v1", meta=meta, spec=spec)  # fmt: skip


def event(name: str, of: str = NODE, kind: str = "Node") -> Json:
    about = {"apiVersion": "v1", "kind": kind, "name": of, "uid": "x"}
    said = {"reason": "GPUUnhealthy", "message": "m", "type": "Warning"}
    return named("Event", name, space="default", involvedObject=about, **said)


def review(who: str, verb: str, resource: str, **more: str) -> Step:
    """Ask whether somebody may do something."""
    resource, _slash, sub = resource.partition("/")
    given = {"verb": verb, "resource": resource, **({"subresource": sub} if sub else {}), **more}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": given}}  # fmt: skip
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return post(who, path, body, "spec", "status.allowed")


OF_DRAIN = [
    *made(node(NODE), node(OTHER), account(), *manifest("drain-rbac")),
    *made(pod("a", NODE)),
    get(DRAIN, f"{NODES}/{NODE}", until=200),
    get(DRAIN, f"{NODES}/none"),
    get(DRAIN, NODES),
    patch(DRAIN, f"{NODES}/{NODE}", {"spec": {"unschedulable": True}}, "spec.unschedulable",
          where={"fieldManager": "gpu-node"}),
    get(DRAIN, PODS, where={"fieldSelector": f"spec.nodeName={NODE}"}),
    post(DRAIN, f"{DEFAULT}/pods/a/eviction", eviction("a", "1-2")),
    get(DRAIN, f"{CLAIMS}/none"),
    get(DRAIN, SLICES),
    post(DRAIN, f"{DEFAULT}/pods", pod("b"), until=201),
    get(DRAIN, f"{DEFAULT}/pods", where={"labelSelector": "a=b"}),
    delete(DRAIN, f"{DEFAULT}/pods/b", {"gracePeriodSeconds": 0}),
    post(DRAIN, "/api/v1/namespaces/kube-system/pods", pod("b", space="kube-system")),
    post(DRAIN, CLAIMS, named("ResourceClaim", "x", "resource.k8s.io/v1", "default", spec={
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "x"}}]}})),
    get(DRAIN, CLAIMS),
    delete(DRAIN, f"{CLAIMS}/x"),
    delete(DRAIN, f"{NODES}/{NODE}"),
    get(DRAIN, "/api/v1/secrets"),
    patch(DRAIN, f"{NODES}/{NODE}/status", {"status": {}}, kind=STRATEGIC),
    delete(DRAIN, f"{DEFAULT}/pods/a"),
    review(DRAIN, "create", "pods/eviction"),
    review(DRAIN, "patch", "nodes", name=NODE),
    review(DRAIN, "list", "secrets"),
    review(DRAIN, "get", "resourceclaims", group="resource.k8s.io"),
    review(DRAIN, "create", "pods", namespace="default"),
    review(DRAIN, "create", "pods", namespace="kube-system"),
    review("nobody", "get", "nodes"),
    review(ADMIN, "get", "nodes"),
]  # fmt: skip
OF_LABELS = [
    *made(node(NODE), node(OTHER), space("node-feature-discovery"), crd(), until=201),
    *made(*manifest("node-labels-rbac", without=("NodeFeature", *POLICIES))),
    *made(*(one for one in manifest("node-labels-rbac") if one["kind"] == "NodeFeature"), until=201),
    get(LABELS, FEATURE, "spec", keep="feature", until=200),
    put(LABELS, FEATURE, "feature", {"spec": {"labels": {"a": "b"}}}, "spec", keep="newer"),
    put(LABELS, FEATURE, "feature", {"spec": {"labels": {"a": "c"}}}),
    post(LABELS, FEATURES, {**manifest("node-labels-rbac")[1]}),
    get(LABELS, FEATURES),
    get(LABELS, f"{FEATURES}/nvidia-features-for-{OTHER}"),
    put(LABELS, FEATURE.replace("node-feature-discovery", "kube-system"), "feature", {}),
    delete(LABELS, FEATURE),
    get(LABELS, FEATURE),
    get(LABELS, NODES, where=ONLY, keep="list"),
    get(LABELS, NODES),
    get(LABELS, NODES, where={"fieldSelector": f"metadata.name={OTHER}"}),
    get(LABELS, f"{NODES}/{NODE}"),
    patch(LABELS, f"{NODES}/{NODE}", LABEL),
    patch(LABELS, f"{NODES}/{OTHER}", LABEL),
    watch(LABELS, NODES, 1, where={**ONLY, "resourceVersion": "$list.metadata.resourceVersion"}),
    patch(LABELS, f"{NODES}/{NODE}/status", {"status": {"conditions": [
        {"type": "GPUHealthy", "status": "True"}]}}, "status.conditions", kind=STRATEGIC),
    patch(LABELS, f"{NODES}/{OTHER}/status", {"status": {}}, kind=STRATEGIC),
    put(LABELS, f"{NODES}/{NODE}/status", "list", {}),
    post(LABELS, EVENTS, event("mine"), "involvedObject"),
    patch(LABELS, f"{EVENTS}/mine", {"count": 2}, "count"),
    get(LABELS, EVENTS),
    delete(LABELS, f"{EVENTS}/mine"),
    post(LABELS, EVENTS.replace("default", "kube-system"), event("x")),
    post(LABELS, NODES, node("node-3")),
    delete(LABELS, f"{NODES}/{NODE}"),
    get(LABELS, "/api/v1/secrets"),
]  # fmt: skip
OF_DRA = [
    *made(node(NODE), node(OTHER), *manifest("dra/node-rbac")),
    get(DRA, SLICES, where=OURS, until=200),
    post(DRA, SLICES, slice_of("mine"), keep="mine"),
    put(DRA, f"{SLICES}/mine", "mine", {}),
    get(DRA, f"{SLICES}/mine"),
    delete(DRA, f"{SLICES}/mine"),
    delete(DRA, f"{SLICES}/mine"),
    delete(DRA, SLICES),
    get(DRA, f"{CLAIMS}/none"),
    get(DRA, CLAIMS),
    get(DRA, f"{NODES}/{NODE}"),
    get(DRA, f"{NODES}/{OTHER}"),
    get(DRA, NODES),
    get(DRA, PODS),
    get(DRA, "/api/v1/secrets"),
    get(DRA, "/apis/resource.k8s.io/v1/deviceclasses"),
]
KINDS = ("Deployment", "Service", "PodDisruptionBudget")
OF_WEBHOOK = [
    *made(*manifest("dra/webhook", without=KINDS), *manifest("dra/webhook-self-managed")),
    get(WEBHOOK, SECRET, keep="secret", until=200),
    put(WEBHOOK, SECRET, "secret", {"data": {"tls.crt": "eA=="}}, "data"),
    put(WEBHOOK, SECRET, "secret", {"data": {"tls.crt": "eQ=="}}),
    get(WEBHOOK, SECRET.replace("webhook-tls", "other")),
    get(WEBHOOK, SECRET.rpartition("/")[0]),
    delete(WEBHOOK, SECRET),
    get(WEBHOOK, HOOK, keep="hook"),
    patch(WEBHOOK, HOOK, [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "$hook.metadata.resourceVersion"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "eA=="}],
        kind="application/json-patch+json"),
    patch(WEBHOOK, HOOK, [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "eA=="}],
        kind="application/json-patch+json"),
    patch(WEBHOOK, HOOK, [{"op": "add", "path": "/webhooks/0/rules/-", "value": MORE}],
          kind="application/json-patch+json", until=403),
    patch(WEBHOOK, HOOK.replace("gpu-node", "other"), {}),
    delete(WEBHOOK, HOOK),
    get(WEBHOOK, PODS),
    get(WEBHOOK, f"{DEFAULT}/pods/none"),
    get(WEBHOOK, SLICES),
    post(WEBHOOK, SLICES, slice_of("mine")),
    get(WEBHOOK, CLAIMS),
    get(WEBHOOK, NODES),
]  # fmt: skip
SCENES: dict[str, Any] = {
    "account-of-drains": OF_DRAIN,
    "account-of-labels": OF_LABELS,
    "account-of-the-driver": OF_DRA,
    "account-of-the-webhook": OF_WEBHOOK,
}
