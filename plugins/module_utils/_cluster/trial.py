# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods that test a node, one for each resource, and one with a claim for each class, and their results."""

from __future__ import annotations

import re
import typing as t

from .._base.dra.names import DRIVER, GPU, GPU_CLASS, MEMORY, MIG, MIG_CLASS, SHARE, SHARE_CLASS
from .pods import EXTENDED_CLAIM, FINISHED, VENDOR, Json
from .rights import Right

GROUP = "/apis/resource.k8s.io/v1"
ALLOCATION_LABEL = f"{DRIVER}/allocation"
CLASSES: t.Mapping[str, str] = {GPU: GPU_CLASS, MIG: MIG_CLASS, SHARE: SHARE_CLASS}
LITTLE = "512Mi"  # of a share: a CUDA context fits
# Quotas of cpu and memory refuse pods that name none. A node that is full by requests still has room for these.
LIMITS: t.Mapping[str, str] = {"cpu": "1", "memory": "1Gi"}
REQUESTS: t.Mapping[str, str] = {"cpu": "1m", "memory": "1Mi"}
LABEL, CREATOR = "app.kubernetes.io/created-by", "gpu-node-validate-pods"
NODE = "gpu.node/validates"
MAIN = "main"
Counts = t.Dict[str, int]


def offered(node: Json) -> Counts:
    """Return how many of each of NVIDIA's resources a Node has allocatable, without those that it has none of."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    counts = _counts(allocatable)
    return {name: count for name, count in sorted(counts.items()) if count}


def used(pods: t.Iterable[Json]) -> Counts:
    """Return how many of each resource the unfinished pods of a node have."""
    total: Counts = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in FINISHED:
            continue
        for name, count in _asked(pod["spec"]).items():
            total[name] = total.get(name, 0) + count
    return total


def _asked(spec: Json) -> Counts:
    """Return a pod's resources: the sum of its containers, or those of an init container that has more."""
    total: Counts = {}
    for container in spec.get("containers") or ():
        for name, count in _counts((container.get("resources") or {}).get("limits") or {}).items():
            total[name] = total.get(name, 0) + count
    for container in spec.get("initContainers") or ():
        for name, count in _counts((container.get("resources") or {}).get("limits") or {}).items():
            total[name] = max(total.get(name, 0), count)
    return total


def _counts(quantities: Json) -> Counts:
    """Return the counts of NVIDIA's resources, which are whole numbers; 0 for a quantity of another form."""
    return {
        name: int(str(quantity)) if re.fullmatch(r"\d{1,9}", str(quantity)) else 0
        for name, quantity in quantities.items()
        if name.startswith(VENDOR)
    }


def manifest(
    node: str, resource: str, namespace: str, image: str, command: t.Sequence[str], seconds: int
) -> t.Dict[str, t.Any]:
    """Return a pod that the scheduler may put on this node alone, even if it is cordoned or tainted."""
    on_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [on_node]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    container: t.Dict[str, t.Any] = {
        "name": MAIN,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {**LIMITS, resource: 1}, "requests": dict(REQUESTS)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if command:
        container["command"] = list(command)
    short = re.sub(r"[^a-z0-9]+", "-", resource[len(VENDOR) :].lower()).strip("-")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"gpu-node-{short[:30]}-",
            "namespace": namespace,
            "labels": {LABEL: CREATOR},
            "annotations": {NODE: node},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": seconds,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "affinity": affinity,
            "tolerations": [{"operator": "Exists"}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


def left_over(pods: t.Iterable[Json], node: str) -> t.List[t.Tuple[str, str]]:
    """Return name and UID of the pods that earlier runs have left for a node."""
    return [
        (str(meta["name"]), str(meta["uid"]))
        for meta in (pod["metadata"] for pod in pods)
        if (meta.get("annotations") or {}).get(NODE) == node
    ]


def proven(pod: Json, *, to_the_end: bool) -> bool:
    """Return whether a pod has succeeded, or, unless it has to end, runs."""
    phase = (pod.get("status") or {}).get("phase")
    return phase == "Succeeded" or (phase == "Running" and not to_the_end)


def failed(pod: Json) -> bool:
    """Return whether a pod has failed."""
    return (pod.get("status") or {}).get("phase") == "Failed"


def why(pod: Json) -> str:
    """Return why a pod makes no progress, as reported by scheduler, kubelet and runtime."""
    status = pod.get("status") or {}
    for container_status in status.get("containerStatuses") or ():
        for kind in ("waiting", "terminated"):
            state = (container_status.get("state") or {}).get(kind) or {}
            if state.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                code = f"exit code {state['exitCode']}" if "exitCode" in state else ""
                return _joined(state.get("reason"), code, state.get("message"))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _joined(condition.get("reason"), condition.get("message"))
    return _joined(status.get("reason"), status.get("message")) or f"it is {status.get('phase')}"


def _joined(*texts: t.Any) -> str:
    return ", ".join(str(text).strip() for text in texts if text)


def claims_rights(namespace: str) -> t.Tuple[Right, ...]:
    """Return the rights to try claims, besides those to try pods."""
    group, verbs = "resource.k8s.io", ("create", "list", "delete")
    more = (Right(verb, "resourceclaims", group, namespace=namespace) for verb in verbs)
    return (Right("list", "resourceslices", group), *more)


def has_dra(node: Json) -> bool:
    """Return whether a Node is labelled as one whose GPUs, or some of them, are allocated by DRA."""
    return ALLOCATION_LABEL in (node["metadata"].get("labels") or {})


def classes(slices: Json) -> t.Tuple[str, ...]:
    """Return the classes that devices of ours in a list of a node's slices belong to."""
    specs = (item["spec"] for item in slices.get("items") or ())
    types = {
        str((device.get("attributes") or {}).get("type", {}).get("string"))
        for spec in specs
        if spec.get("driver") == DRIVER
        for device in spec.get("devices") or ()
    }
    return tuple(name for kind, name in CLASSES.items() if kind in types)


def has_claims(pods: t.Iterable[Json]) -> bool:
    """Return whether a pod of a node has claims of any driver, also for extended resources of a class."""
    statuses = ((pod, pod.get("status") or {}) for pod in pods)
    return any(
        pod["spec"].get("resourceClaims") or status.get(EXTENDED_CLAIM)
        for pod, status in statuses
        if status.get("phase") not in FINISHED
    )


def claims_folder(namespace: str) -> str:
    """Return the path of the claims of a namespace."""
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
    """Return a pod of the trial with a claim instead of a resource."""
    spec, device = pod["spec"], [{"name": "device"}]
    resources = {"limits": dict(LIMITS), "requests": dict(REQUESTS), "claims": device}
    container = {**spec["containers"][0], "resources": resources}
    claims = [{"name": "device", "resourceClaimName": name}]
    return {**pod, "spec": {**spec, "containers": [container], "resourceClaims": claims}}


def unplaced(pod: Json) -> bool:
    """Return whether the scheduler finds no place for a pod."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable"
        for condition in conditions
    )
