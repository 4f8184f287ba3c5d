# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods placed on one node, one after the other, and nodes and claims in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.placement import claims, devices
from gpu_cluster.placement.claims import Refused
from gpu_cluster.placement.devices import Devices, Use
from gpu_cluster.placement.search import Candidates, Given, search
from gpu_plugin._shared._base.dra.versions import RECOMMENDED, Version
from gpu_plugin._shared._base.errors import NodeError

Json = dict[str, Any]
NODE = "node-1"


def answers(case: Mapping[str, Any], version: Version = RECOMMENDED) -> list[str]:
    """Return what each pod gets: devices by request, "-" where nothing, "!" where Kubernetes gives up on it."""
    nodes = {name: devices.read(of) for name, of in devices.by_node(case["slices"]).items()}
    here = nodes.get(NODE) or Devices()
    had = (one for of in case.get("allocated", ()) for one in devices.results(of))
    use = devices.allocated(had, here)
    classes = {one["metadata"]["name"]: one for one in case["classes"]}
    candidates = Candidates(classes, devices.broken(nodes.values()))
    found = []
    for pod in case["pods"]:
        try:
            asked = [claims.claim(one["metadata"]["name"], one["spec"]) for one in pod]
            given = search(asked, here, use, candidates, version)
        except (Refused, NodeError):
            found.append("!")
            continue
        found.append("-" if given is None else shown(given, here, len(pod)))
        use = added(use, given or (), here)
    return found


def added(use: Use, given: Sequence[Given], devices: Devices) -> Use:
    """Return what is in use once these devices are allocated too."""
    return use.plus(
        (one.device, one.consumed if devices.row[one.device].multiple else None) for one in given
    )


def shown(given: Sequence[Given], devices: Devices, number: int) -> str:
    """Return an allocation as text: r0=gpu-0-share:cores,memory,shares r1=gpu-1 | second claim."""
    rows: list[list[str]] = [[] for _claim in range(number)]
    for one in given:
        consumed = ",".join(str(amount) for _name, amount in sorted(one.consumed))
        name = devices.row[one.device].name
        rows[one.claim].append(f"{one.request}={name}" + (f":{consumed}" if consumed else ""))
    return "|".join(" ".join(row) for row in rows)


def device_class(name: str, *expressions: str) -> Json:
    """Return a DeviceClass."""
    selectors = [{"cel": {"expression": one}} for one in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors}}


def claim(name: str, *requests: Json, **devices: Any) -> Json:
    """Return a ResourceClaim."""
    named = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": named, "spec": {"devices": {"requests": list(requests), **devices}}}


def asks(name: str, device_class: str = "share", count: int = 1, **more: Any) -> Json:
    """Return a request for an exact count of devices, \"capacity\" being a map."""
    if "capacity" in more:
        more["capacity"] = {"requests": more["capacity"]}
    if "selectors" in more:
        more["selectors"] = [{"cel": {"expression": one}} for one in more["selectors"]]
    exactly = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": count,
        **more,
    }
    return {"name": name, "exactly": exactly}


def node(
    devices: Sequence[Json], counters: Mapping[str, Mapping[str, str]] | None = None
) -> list[Json]:
    """Return the slices of a node with a pool."""
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 2 if counters else 1}
    spec = {"driver": "gpu.node", "nodeName": NODE, "pool": pool}
    sets = [
        {"name": name, "counters": {key: {"value": value} for key, value in of.items()}}
        for name, of in (counters or {}).items()
    ]
    first = [{"metadata": {"name": "a"}, "spec": {**spec, "sharedCounters": sets}}] if sets else []
    return [*first, {"metadata": {"name": "b"}, "spec": {**spec, "devices": list(devices)}}]


def network(node: str) -> list[Json]:
    """Return the slices of a network card, of which each function takes a port; their pool is named as the node."""
    one = {"ports": {"value": "1"}}
    functions = [
        {"name": f"vf-{n}", "consumesCounters": [{"counterSet": "card", "counters": one}]}
        for n in range(2)
    ]
    parts: list[Json] = [
        {"sharedCounters": [{"name": "card", "counters": {"ports": {"value": "2"}}}]},
        {"devices": functions},
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
    return [{"driver": "dra.net", "nodeName": node, "pool": pool, **part} for part in parts]
