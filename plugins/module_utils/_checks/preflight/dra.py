# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What DRA needs of a cluster: a version of Kubernetes that is safe with our slices, and its feature gates.

Gates and their components are those of Kubernetes 1.36 (pkg/features/kube_features.go and where they are asked for).
"""

from __future__ import annotations

import typing as t

from ..._base.dra.names import DEVICE_PLUGIN
from ..._base.dra.versions import OLDEST, RECOMMENDED, Version, parse, refusal
from ..._base.dra.versions import text as shown
from ..._base.kubelet.allocate import BY_FIELD, obstacles
from ..._runtime.state import CDI
from .problems import Problem

VARIABLE = "gpu_nodes_allocation"
KUBECONFIG = "gpu_nodes_kubeconfig"
CONSUMABLE, PARTITIONABLE = "DRAConsumableCapacity", "DRAPartitionableDevices"
UPGRADE = f"upgrade Kubernetes to {shown(RECOMMENDED)}"
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


def is_desired(values: t.Mapping[str, t.Any]) -> bool:
    """Return whether variables ask for DRA."""
    return str(values.get(VARIABLE) or DEVICE_PLUGIN) != DEVICE_PLUGIN


def _refused(values: t.Mapping[str, t.Any], why: str, hint: str) -> Problem:
    text = f"{VARIABLE}: {values[VARIABLE]!r} is not possible: {why}"
    return Problem(VARIABLE, text, hint)


def of_kubelet(values: t.Mapping[str, t.Any], output: str) -> t.List[Problem]:
    """Refuse a kubelet that is too old; ``output`` is what it says of its version.

    Where the API server is asked, its patch stands for the scheduler's, and the kubelet needs the gates alone.
    """
    version = parse(output)
    asked, gates = bool(values.get(KUBECONFIG)), (*OLDEST[:2], 0)
    if version is None or version >= (gates if asked else OLDEST):
        return []
    why = f"the node's kubelet is of {refusal(version)}"
    other = f"set {KUBECONFIG} where the API server is newer, which nobody asked so far, "
    return [_refused(values, why, f"{UPGRADE}, {other if version >= gates else ''}{BACK}")]


def warning(values: t.Mapping[str, t.Any], output: str) -> str:
    """Return what can't be known of a cluster of this kubelet, as nobody was given access to it; empty for nothing."""
    version = parse(output)
    if not is_desired(values) or values.get(KUBECONFIG) or (version and version < OLDEST):
        return ""
    kubelet = f"is of Kubernetes {shown(version)}" if version else "says no version of Kubernetes"
    return (
        f"the node's kubelet {kubelet}, and nobody was asked whether the API server and kube-scheduler are of"
        f" {shown(OLDEST)} or newer, with {CONSUMABLE} and {PARTITIONABLE} on. Next step: set {KUBECONFIG}, so that"
        " the API server is asked"
    )


def of_version(values: t.Mapping[str, t.Any], output: str) -> t.List[Problem]:
    """Refuse an API server that is too old; ``output`` is what it says of its version."""
    version = parse(output)
    if version is None or version >= OLDEST:
        return []
    why = f"the API server is of {refusal(version)}"
    return [_refused(values, why, f"{UPGRADE}, {BACK}")]


def of_server(
    values: t.Mapping[str, t.Any], output: str, *, served: bool, trial: t.Optional[Json]
) -> t.List[Problem]:
    """Refuse a cluster without DRA, or that drops what slices say; ``trial`` is what it would keep of the trial.

    None: it was not asked, or it does not let us.
    """
    if not served:
        why = f"the API server (Kubernetes {output}) does not serve resource.k8s.io/v1"
        hint = "take resource.k8s.io/v1=false out of --runtime-config of kube-apiserver"
        return [_refused(values, why, f"{hint}, {BACK}")]
    if trial is None:
        return []
    device = (trial.get("spec", {}).get("devices") or [{}])[0]
    fields = {CONSUMABLE: "allowMultipleAllocations", PARTITIONABLE: "consumesCounters"}
    missing = [gate for gate, field in fields.items() if not device.get(field)]
    if not missing:
        return []
    why = f"the API server (Kubernetes {output}) has the feature gate {' and '.join(missing)} off"
    setting = ",".join(f"{gate}=false" for gate in missing)
    return [_refused(values, why, f"take {setting} out of --feature-gates of {COMPONENTS}, {BACK}")]


def of_runtime(
    values: t.Mapping[str, t.Any], runtimes: t.Mapping[str, Version], *, managed: bool
) -> t.List[Problem]:
    """Refuse a runtime that is too old, or a mode that leaves CDI off, by which devices of claims reach containers."""
    for obstacle in obstacles([BY_FIELD], runtimes):
        why = f"devices of claims reach containers as those of {BY_FIELD} do, and {obstacle}"
        return [_refused(values, why, f"upgrade {obstacle.program}, {BACK}")]
    mode = values.get("container_runtime_mode") or CDI
    if not managed or mode == CDI:
        return []
    name = "container_runtime_mode"
    expected = f"{CDI}, as {VARIABLE} is {values[VARIABLE]}: devices of claims reach containers by CDI alone"
    return [Problem.value(name, mode, expected)]
