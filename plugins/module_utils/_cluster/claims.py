# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims that try a node with DRA: one for each class of devices that it publishes, and a pod with it."""

from __future__ import annotations

import typing as t

from .._base.dra.names import DRIVER, GPU, GPU_CLASS, MEMORY, MIG, MIG_CLASS, SHARE, SHARE_CLASS
from .pods import FINISHED, Json
from .rights import Right
from .trial import CREATOR, LABEL, NODE

GROUP = "/apis/resource.k8s.io/v1"
ALLOCATION_LABEL = f"{DRIVER}/allocation"
CLASSES: t.Mapping[str, str] = {GPU: GPU_CLASS, MIG: MIG_CLASS, SHARE: SHARE_CLASS}
LITTLE = "512Mi"  # of a share: a CUDA context fits


def rights(namespace: str) -> t.Tuple[Right, ...]:
    """Return what trying claims takes beside what trying pods does."""
    verbs = ("create", "list", "delete")
    looks = (Right("list", "resourceslices", "resource.k8s.io"),)
    return looks + tuple(
        Right(verb, "resourceclaims", "resource.k8s.io", namespace=namespace) for verb in verbs
    )


def has_dra(node: Json) -> bool:
    """Tell whether a Node is labelled as one whose GPUs, or some of them, are given out by DRA."""
    return ALLOCATION_LABEL in (node["metadata"].get("labels") or {})


def classes(slices: Json) -> t.Tuple[str, ...]:
    """Return the classes of which a node's slices, as they are listed, have devices of ours."""
    types = {
        str((device.get("attributes") or {}).get("type", {}).get("string"))
        for one in slices.get("items") or ()
        if one["spec"].get("driver") == DRIVER
        for device in one["spec"].get("devices") or ()
    }
    return tuple(name for kind, name in CLASSES.items() if kind in types)


def in_use(pods: t.Iterable[Json]) -> bool:
    """Tell whether a pod of a node has claims, of whatever driver."""
    return any(
        one["spec"].get("resourceClaims")
        for one in pods
        if (one.get("status") or {}).get("phase") not in FINISHED
    )


def folder(namespace: str) -> str:
    """Return where claims are, as in a path."""
    return f"{GROUP}/namespaces/{namespace}/resourceclaims"


def claim(name: str, namespace: str, node: str) -> t.Dict[str, t.Any]:
    """Return a claim for one device of a class; of a share, a little memory. Its pod is bound to the node."""
    exactly: t.Dict[str, t.Any] = {"deviceClassName": name}
    if name == SHARE_CLASS:
        exactly["capacity"] = {"requests": {MEMORY: LITTLE}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"gpu-node-{name.partition('.')[0]}-",
            "namespace": namespace,
            "labels": {LABEL: CREATOR},
            "annotations": {NODE: node},
        },
        "spec": {"devices": {"requests": [{"name": "device", "exactly": exactly}]}},
    }


def with_claim(pod: Json, name: str) -> t.Dict[str, t.Any]:
    """Return a pod of the trial with a claim in the place of a resource."""
    spec = pod["spec"]
    container = {**spec["containers"][0], "resources": {"claims": [{"name": "device"}]}}
    claims = [{"name": "device", "resourceClaimName": name}]
    return {**pod, "spec": {**spec, "containers": [container], "resourceClaims": claims}}


def unplaced(pod: Json) -> bool:
    """Tell whether the scheduler finds no place for a pod."""
    return any(
        one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable"
        for one in (pod.get("status") or {}).get("conditions") or ()
    )
