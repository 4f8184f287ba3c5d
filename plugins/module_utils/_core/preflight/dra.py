# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What DRA needs of a cluster: Kubernetes 1.34, and what Kubernetes 1.36 has on by default.

Gates and their components are those of Kubernetes 1.36 (pkg/features/kube_features.go and where they are asked for).
"""

from __future__ import annotations

import re
import typing as t

from ..dra.names import DEVICE_PLUGIN
from ..runtimes.common import CDI
from .problems import Problem

VARIABLE = "gpu_nodes_allocation"
OLDEST, COMPLETE = (1, 34), (1, 36)
CONSUMABLE, PARTITIONABLE = "DRAConsumableCapacity", "DRAPartitionableDevices"
BACK = f"or leave {VARIABLE} at {DEVICE_PLUGIN}"
COMPONENTS = "kube-apiserver and kube-scheduler"
# A slice that no driver of this name will ever publish: the server is asked what it would keep of it.
TRIAL: t.Mapping[str, t.Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"generateName": "gpu-node-preflight-"},
    "spec": {
        "driver": "preflight.gpu.node",
        "allNodes": True,
        "pool": {"name": "preflight", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "share",
                "allowMultipleAllocations": True,
                "consumesCounters": [{"counterSet": "gpu", "counters": {"whole": {"value": "1"}}}],
            }
        ],
    },
}
Json = t.Mapping[str, t.Any]


def version(text: str) -> t.Optional[t.Tuple[int, int]]:
    """Return major and minor of what a program or a server says, None where it says none."""
    match = re.search(r"\bv?(\d{1,4})\.(\d{1,4})\b", text)
    return (int(match[1]), int(match[2])) if match else None


def wanted(values: t.Mapping[str, t.Any]) -> bool:
    """Tell whether variables ask for DRA."""
    return str(values.get(VARIABLE) or DEVICE_PLUGIN) != DEVICE_PLUGIN


def _refused(values: t.Mapping[str, t.Any], why: str, hint: str) -> Problem:
    text = f"{VARIABLE}: {values[VARIABLE]!r} is not possible: {why}"
    return Problem(VARIABLE, text, hint)


def of_kubelet(values: t.Mapping[str, t.Any], said: str) -> t.List[Problem]:
    """Refuse a kubelet that is too old; ``said`` is what it says of its version."""
    found = version(said)
    if found is None or found >= OLDEST:
        return []
    why = f"the node's kubelet is of Kubernetes {_text(found)}, and DRA is there from {_text(OLDEST)} on"
    return [_refused(values, why, f"upgrade Kubernetes to {_text(COMPLETE)}, {BACK}")]


def warning(values: t.Mapping[str, t.Any], said: str) -> str:
    """Return what can't be known of a cluster of this kubelet, as nobody was given access to it; empty for nothing."""
    found = version(said)
    if not wanted(values) or values.get("gpu_nodes_kubeconfig") or found is None:
        return ""
    if not OLDEST <= found < COMPLETE:
        return ""
    gates = f"{CONSUMABLE} and {PARTITIONABLE}"
    return (
        f"the node's kubelet is of Kubernetes {_text(found)}: shares and MIG devices need the feature gates {gates}"
        f" on {COMPONENTS}, which are on by default from {_text(COMPLETE)} on. Next step: set"
        " gpu_nodes_kubeconfig, so that the API server is asked"
    )


def of_server(
    values: t.Mapping[str, t.Any], said: str, *, served: bool, kept: t.Optional[Json]
) -> t.List[Problem]:
    """Refuse a cluster without DRA, or that drops what slices say; ``kept`` is what it would keep of the trial.

    None: it was not asked, or it does not let us.
    """
    found = version(said)
    if not served:
        why = f"the API server (Kubernetes {said}) does not serve resource.k8s.io/v1"
        if found and found < OLDEST:
            return [_refused(values, why, f"upgrade Kubernetes to {_text(COMPLETE)}, {BACK}")]
        hint = "take resource.k8s.io/v1=false out of --runtime-config of kube-apiserver"
        return [_refused(values, why, f"{hint}, {BACK}")]
    missing = _dropped(kept) if kept is not None else []
    if not missing:
        return []
    gates = " and ".join(missing)
    off = f"has the feature gate {gates} off, on by default from {_text(COMPLETE)} on"
    why = f"the API server (Kubernetes {said}) {off}"
    setting = ",".join(f"{one}=true" for one in missing)
    return [
        _refused(values, why, f"set --feature-gates={setting} on {COMPONENTS}, or upgrade, {BACK}")
    ]


def _dropped(kept: Json) -> t.List[str]:
    """Return the gates whose fields a server has left out of what it was sent."""
    device = (kept.get("spec", {}).get("devices") or [{}])[0]
    found = [] if device.get("allowMultipleAllocations") else [CONSUMABLE]
    return found + ([] if device.get("consumesCounters") else [PARTITIONABLE])


def of_runtime(values: t.Mapping[str, t.Any], *, managed: bool) -> t.List[Problem]:
    """Refuse a mode that leaves CDI off, by which the devices of claims reach containers."""
    mode = values.get("container_runtime_mode") or CDI
    if not managed or mode == CDI:
        return []
    name = "container_runtime_mode"
    expected = f"{CDI}, as {VARIABLE} is {values[VARIABLE]}: devices of claims reach containers by CDI alone"
    return [Problem.value(name, mode, expected)]


def _text(number: t.Tuple[int, int]) -> str:
    return ".".join(map(str, number))
