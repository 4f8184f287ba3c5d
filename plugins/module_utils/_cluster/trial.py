# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods that try a node: one for each resource that it offers, and what became of them."""

from __future__ import annotations

import re
import typing as t

from .pods import FINISHED, VENDOR, Json

LABEL, CREATOR = "app.kubernetes.io/created-by", "gpu-node-validate-pods"
NODE = "gpu.node/validates"
MAIN = "main"
Counts = t.Dict[str, int]


def offered(node: Json) -> Counts:
    """Return how many of each of NVIDIA's resources a Node has allocatable, of those that it has any."""
    found = (node.get("status") or {}).get("allocatable") or {}
    counts = {name: _count(one) for name, one in found.items() if name.startswith(VENDOR)}
    return {name: count for name, count in sorted(counts.items()) if count}


def used(pods: t.Iterable[Json]) -> Counts:
    """Return how many of each resource the pods of a node have that have not finished."""
    total: Counts = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in FINISHED:
            continue
        for name, count in _asked(pod["spec"]).items():
            total[name] = total.get(name, 0) + count
    return total


def _asked(spec: Json) -> Counts:
    """Return what a pod has: that of all its containers, or more where one before them had more."""
    total: Counts = {}
    for one in spec.get("containers") or ():
        for name, count in _limits(one).items():
            total[name] = total.get(name, 0) + count
    for one in spec.get("initContainers") or ():
        for name, count in _limits(one).items():
            total[name] = max(total.get(name, 0), count)
    return total


def _limits(container: Json) -> Counts:
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: _count(one) for name, one in limits.items() if name.startswith(VENDOR)}


def _count(quantity: t.Any) -> int:
    """Return a whole number, as extended resources are; one of another form is none."""
    return int(str(quantity)) if re.fullmatch(r"\d{1,9}", str(quantity)) else 0


def manifest(
    node: str, resource: str, namespace: str, image: str, command: t.Sequence[str], seconds: int
) -> t.Dict[str, t.Any]:
    """Return a pod that the scheduler may put on this node alone, cordoned or tainted as it may be."""
    on_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [on_node]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    container: t.Dict[str, t.Any] = {
        "name": MAIN,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {resource: 1}},
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
    """Return name and UID of the pods that earlier runs left for a node."""
    return [
        (str(one["metadata"]["name"]), str(one["metadata"]["uid"]))
        for one in pods
        if (one["metadata"].get("annotations") or {}).get(NODE) == node
    ]


def proven(pod: Json, *, to_the_end: bool) -> bool:
    """Tell whether a pod has shown what it is there for: that it runs, or ended well."""
    phase = (pod.get("status") or {}).get("phase")
    return phase == "Succeeded" or (phase == "Running" and not to_the_end)


def failed(pod: Json) -> bool:
    """Tell whether a pod will not come to more."""
    return (pod.get("status") or {}).get("phase") == "Failed"


def why(pod: Json) -> str:
    """Return why a pod has not come further, in the words of scheduler, kubelet and runtime."""
    status = pod.get("status") or {}
    for one in status.get("containerStatuses") or ():
        for kind in ("waiting", "terminated"):
            found = (one.get("state") or {}).get(kind) or {}
            if found.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                code = f"exit code {found['exitCode']}" if "exitCode" in found else ""
                return _joined(found.get("reason"), code, found.get("message"))
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return _joined(one.get("reason"), one.get("message"))
    return _joined(status.get("reason"), status.get("message")) or f"it is {status.get('phase')}"


def _joined(*texts: t.Any) -> str:
    return ", ".join(str(one).strip() for one in texts if one)
