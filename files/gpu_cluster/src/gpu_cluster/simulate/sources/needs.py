# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a pod needs of a node, as the scheduler counts it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.cluster import quantity
from gpu_plugin.cluster.quantity import Number

from ..values import ClaimRef, Shape

Json = Mapping[str, Any]
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_IGNORED: Final = {
    "podAffinity": "affinity.podAffinity",
    "podAntiAffinity": "affinity.podAntiAffinity",
}


def shape(pod: Json) -> Shape:
    """Return what is looked at of a pod's manifest. NodeError: a value can't be."""
    spec = pod.get("spec") or {}
    containers = list(_containers(spec))
    if not any(not init for init, _one in containers):
        raise NodeError("spec.containers: there is none")
    total = _total(spec, [(one[0], _requests(one[1])) for one in containers])
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return Shape(
        total.get("cpu", 0),
        total.get("memory", 0),
        {name: _whole(name, value) for name, value in total.items() if _extended(name) and value},
        tuple(
            (
                init,
                {
                    name: _whole(name, value)
                    for name, value in _requests(one).items()
                    if _extended(name)
                },
            )
            for init, one in containers
        ),
        tuple(_claim(one) for one in spec.get("resourceClaims") or ()),
        {str(key): str(value) for key, value in (spec.get("nodeSelector") or {}).items()},
        (required.get("nodeSelectorTerms") or ()) if required else None,
        tuple(spec.get("tolerations") or ()),
        str(spec.get("nodeName") or ""),
        tuple(_ignored(spec, affinity)),
    )


def _containers(spec: Json) -> Iterator[tuple[bool, Json]]:
    """Yield the containers, and whether each is an init container that ends before others start."""
    for one in spec.get("initContainers") or ():
        yield one.get("restartPolicy") != "Always", one
    for one in spec.get("containers") or ():
        yield False, one


def _requests(container: Json) -> dict[str, Number]:
    """Return requests; a limit without a request is one."""
    resources = container.get("resources") or {}
    named = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    key = f"container {container.get('name', '')}: resources"
    return {str(name): quantity.of(value, f"{key}.{name}") for name, value in named.items()}


def _total(
    spec: Json, containers: Iterable[tuple[bool, Mapping[str, Number]]]
) -> dict[str, Number]:
    """Return what the pod needs at its most: init containers one by one, beside the sidecars before them."""
    running: dict[str, Number] = {}
    most: dict[str, Number] = {}
    for ends, requests in containers:
        for name, value in requests.items():
            beside = running.get(name, 0)
            most[name] = max(most.get(name, 0), beside + value)
            if not ends:
                running[name] = beside + value
    names = most.keys() | running.keys()
    whole = {name: max(most.get(name, 0), running.get(name, 0)) for name in names}
    for name, value in (spec.get("overhead") or {}).items():
        whole[name] = whole.get(name, 0) + quantity.of(value, f"spec.overhead.{name}")
    return whole


def _extended(name: str) -> bool:
    return name not in _NATIVE and not name.startswith(("hugepages-", "attachable-volumes-"))


def _whole(name: str, value: Number) -> int:
    if not isinstance(value, int) or value < 0:
        raise NodeError(f"resources.{name}: {quantity.text(value)} is not a whole number")
    return value


def _claim(raw: Json) -> ClaimRef:
    template, claim = raw.get("resourceClaimTemplateName"), raw.get("resourceClaimName")
    return ClaimRef(str(raw.get("name", "")), str(template or ""), str(claim or ""))


def _ignored(spec: Json, affinity: Json) -> Iterator[str]:
    """Yield the fields that matter to the scheduler and are not looked at here."""
    yield from (text for key, text in _IGNORED.items() if affinity.get(key))
    if any(
        one.get("whenUnsatisfiable") == "DoNotSchedule"
        for one in spec.get("topologySpreadConstraints") or ()
    ):
        yield "topologySpreadConstraints"
    if any(
        one.get("persistentVolumeClaim") or one.get("ephemeral")
        for one in spec.get("volumes") or ()
    ):
        yield "volumes"
    if any(
        port.get("hostPort") for _init, one in _containers(spec) for port in one.get("ports") or ()
    ):
        yield "hostPort"
    if spec.get("schedulingGates"):
        yield "schedulingGates"
