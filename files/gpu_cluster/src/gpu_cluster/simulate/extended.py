# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Extended resources that DeviceClasses stand for: the claim that the scheduler makes of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..placement.claims import Claim, Request
from .values import Shape

Json = Mapping[str, Any]
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"


def classes_by_resource(classes: Iterable[Json]) -> dict[str, str]:
    """Return the DeviceClass of each extended resource; of two the newer, then the one that sorts first."""
    newest: dict[str, tuple[str, str]] = {}
    for one in sorted(classes, key=lambda each: str(each["metadata"]["name"]), reverse=True):
        name, born = (
            str(one["metadata"]["name"]),
            str(one["metadata"].get("creationTimestamp") or ""),
        )
        resource = (one.get("spec") or {}).get("extendedResourceName")
        for of in filter(None, (resource, f"{IMPLICIT}{name}")):
            if born >= newest.get(str(of), ("", ""))[0]:
                newest[str(of)] = (born, name)
    return {resource: name for resource, (_born, name) in newest.items()}


def claim(shape: Shape, resources: Mapping[str, str]) -> Claim | None:
    """Return the claim for these extended resources of a pod (with their classes), None where it has none."""
    requests = [
        one for name in sorted(resources) for one in _requests(shape, name, resources[name])
    ]
    if not requests:
        return None
    requests.sort(key=lambda one: one.name)
    return Claim("extended-resources", tuple((one,) for one in requests))


def _requests(shape: Shape, resource: str, device_class: str) -> list[Request]:
    """Return a request for each container; init containers that end use what later ones have."""
    counts = [0 if ends else asked.get(resource, 0) for ends, asked in shape.asking]
    most: Request | None = None
    for index, (ends, asked) in enumerate(shape.asking):
        extra = asked.get(resource, 0) - sum(counts[index:])
        if ends and extra > 0 and (most is None or extra > (most.count or 0)):
            most = _request(shape, index, resource, device_class, extra)
    own = [
        _request(shape, index, resource, device_class, count)
        for index, count in enumerate(counts)
        if count
    ]
    return [most, *own] if most else own


def _request(shape: Shape, index: int, resource: str, device_class: str, count: int) -> Request:
    position = sorted(shape.asking[index][1]).index(resource)
    return Request(f"container-{index}-request-{position}", "", device_class, count)
