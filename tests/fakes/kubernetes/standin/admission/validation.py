# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What an API server fills in of an object, and what it finds wrong with one: as much of it as our requests meet."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.fakes.kubernetes.standin.answers import Refused, invalid
from tests.fakes.kubernetes.standin.resources import Resource
from tests.fakes.kubernetes.standin.selectors import at
from tests.fakes.kubernetes.standin.store import TIME

Json = dict[str, Any]
Field = tuple[str, str, str]
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
KNOWN = {"apiVersion", "kind", "metadata", "spec", "status", "data", "type", "stringData"}
KNOWN |= {"rules", "roleRef", "subjects", "webhooks", "automountServiceAccountToken"}
KNOWN |= {"involvedObject", "reason", "message", "count", "source", "firstTimestamp"}
KNOWN |= {"lastTimestamp", "reportingComponent", "reportingInstance"}
# What a server forgets of objects while a feature gate is off.
GATES = {
    "DRAPartitionableDevices": ("sharedCounters", "consumesCounters"),
    "DRAConsumableCapacity": ("allowMultipleAllocations", "requestPolicy"),
    "DRADeviceTaints": ("taints",),
}
FIXED = {
    "ResourceSlice": ("spec.nodeName", "spec.driver", "spec.pool.name"),
    "ResourceClaim": ("spec",),
    "ResourceClaimTemplate": ("spec",),
}


def filled(resource: Resource, found: Json, dropped: tuple[str, ...]) -> Json:
    """Return an object with its defaults, without the fields of a feature that is off."""
    found = copy.deepcopy(found)
    if resource.group == "resource.k8s.io":
        found["spec"] = _without(found.get("spec") or {}, dropped)
    if fill := FILLED.get(resource.kind):
        fill(found)
    return found


def _node(found: Json) -> None:
    if capacity := at(found, "status.capacity"):
        found["status"].setdefault("allocatable", capacity)


def _namespace(found: Json) -> None:
    labels = found["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = found["metadata"].get("name", "")


def _pod(found: Json) -> None:
    found.setdefault("status", {}).setdefault("phase", "Pending")


def _slice(found: Json) -> None:
    for device in found["spec"].get("devices") or ():
        for taint in device.get("taints", ()):
            taint.setdefault("timeAdded", TIME)


def _claim(found: Json) -> None:
    for request in at(found, "spec.devices.requests") or ():
        for one in (request.get("exactly"), *request.get("firstAvailable", ())):
            if one is not None and one.setdefault("allocationMode", "ExactCount") == "ExactCount":
                one.setdefault("count", 1)


def _template(found: Json) -> None:
    found["spec"].setdefault("metadata", {})
    _claim(found["spec"])


FILLED: dict[str, Callable[[Json], None]] = {
    "Node": _node,
    "Namespace": _namespace,
    "Pod": _pod,
    "ResourceSlice": _slice,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
}


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _without(one, keys) for key, one in value.items() if key not in keys}
    return [_without(one, keys) for one in value] if isinstance(value, list) else value


def check(resource: Resource, found: Json, before: Json | None = None) -> None:
    """Refuse an object that is not valid. Refused."""
    name = str(found["metadata"].get("name", ""))
    if wrong := [*_meta(found["metadata"], before), *_of_kind(resource, found, before)]:
        raise invalid(resource, name, *wrong)


def check_strictly(resource: Resource, found: Json) -> None:
    """Refuse fields that no object of this kind has. Refused."""
    kind, version = resource.kind, resource.api.rpartition("/")[2]
    if unknown := [key for key in found if key not in KNOWN]:
        why = f'strict decoding error: unknown field "{unknown[0]}"'
        said = f'{kind} in version "{version}" cannot be handled as a {kind}: {why}'
        raise Refused(400, said)


def _meta(meta: Json, before: Json | None) -> Iterator[Field]:
    name = meta.get("name", "")
    if not name:
        yield "metadata.name", "Required", "Required value: name or generateName is required"
    elif not NAME.fullmatch(name):
        yield "metadata.name", "Invalid", f'Invalid value: "{name}": a lowercase RFC 1123 subdomain'
    for key, value in (meta.get("labels") or {}).items():
        for text in (value, key.rpartition("/")[2]):
            if not LABEL.fullmatch(text):
                yield "metadata.labels", "Invalid", f'Invalid value: "{text}": a valid label'
    was = (before or {}).get("metadata", {}).get("uid")
    if was and meta.get("uid") not in (None, was):
        yield "metadata.uid", "Invalid", f'Invalid value: "{meta["uid"]}": field is immutable'


def _of_kind(resource: Resource, found: Json, before: Json | None) -> Iterator[Field]:
    for path in FIXED.get(resource.kind, ()) if before else ():
        if at(before, path) != at(found, path):
            value = at(found, path)
            shown = f'"{value}"' if isinstance(value, str) else "{...}"
            yield path, "Invalid", f"Invalid value: {shown}: field is immutable"
    if resource.kind == "MutatingWebhookConfiguration":
        yield from _paths(found.get("webhooks") or ())
    if resource.kind == "Pod":
        if not at(found, "spec.containers"):
            yield "spec.containers", "Required", "Required value"
        for number, one in enumerate(at(found, "spec.containers") or ()):
            yield from _whole(f"spec.containers[{number}].resources", one.get("resources") or {})


def _paths(hooks: list[Json]) -> Iterator[Field]:
    """The path of a Service has names as segments."""
    for number, hook in enumerate(hooks):
        path = str(at(hook, "clientConfig.service.path") or "").removeprefix("/")
        for index, part in enumerate(path.split("/") if path else ()):
            if not NAME.fullmatch(part):
                words = (
                    f'Invalid value: "/{path}": segment[{index}]: a lowercase RFC 1123 subdomain'
                )
                yield f"webhooks[{number}].clientConfig.service.path", "Invalid", words


def _whole(where: str, resources: Json) -> Iterator[Field]:
    """Of what is no processor and no memory, a pod has whole pieces; requests are as the limits."""
    limits = resources.get("limits") or {}
    for part, amounts in (
        ("limits", limits),
        ("requests", {**limits, **(resources.get("requests") or {})}),
    ):
        for name, amount in amounts.items():
            if "/" in name and not str(amount).isdigit():
                yield (
                    f"{where}.{part}[{name}]",
                    "Invalid",
                    f'Invalid value: "{amount}": must be an integer',
                )
