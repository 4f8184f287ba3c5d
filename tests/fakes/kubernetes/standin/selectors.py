# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which objects of a list are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.kubernetes.standin.answers import Refused
from tests.fakes.kubernetes.standin.resources import Resource

Json = dict[str, Any]
FIELDS = {
    "Pod": {"spec.nodeName", "status.phase"},
    "ResourceSlice": {"spec.nodeName", "spec.driver"},
    "Event": {"reason", "involvedObject.name", "involvedObject.kind"},
}
Selects = Callable[[Json], bool]


def fields(query: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a selector, with their values."""
    words = [one for one in query.get("fieldSelector", "").split(",") if one]
    return {key: value for key, _sign, value in (one.partition("=") for one in words)}


def selection(resource: Resource, query: Mapping[str, str]) -> Selects:
    """Return what tells whether an object is asked for."""
    wanted = fields(query)
    for name in wanted:
        _check(resource, name)
    labels = query.get("labelSelector", "")
    return lambda one: _fields(one, wanted) and labelled(one, labels)


def _check(resource: Resource, name: str) -> None:
    if name in {"metadata.name", "metadata.namespace", *FIELDS.get(resource.kind, ())}:
        return
    if resource.group:
        said = f"field label not supported for {resource.api}, Kind={resource.kind}: {name}"
    else:
        known = '"metadata.name", "metadata.namespace"'
        said = f'"{name}" is not a known field selector: only {known}'
    raise Refused(400, said)


def _fields(one: Json, wanted: Mapping[str, str]) -> bool:
    return all(str(at(one, name) or "") == value for name, value in wanted.items())


def at(one: Any, path: str) -> Any:
    """Return what is at a path of an object, None where nothing is."""
    for key in path.split("."):
        one = one.get(key) if isinstance(one, dict) else None
    return one


def labelled(one: Json, selector: str) -> bool:
    """Return whether an object's labels are as a selector of equalities wants them."""
    labels = at(one, "metadata.labels") or {}
    for word in filter(None, selector.split(",")):
        key, sign, value = word.partition("=")
        if (labels.get(key) != value.removeprefix("=")) if sign else (key not in labels):
            return False
    return True


def matches(labels: Mapping[str, str], selector: Mapping[str, Any] | None) -> bool:
    """Return whether labels are as a selector of an object wants them."""
    asked = selector or {}
    plain = asked.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in plain.items()):
        return False
    return all(_holds(labels, one) for one in asked.get("matchExpressions") or ())


def _holds(labels: Mapping[str, str], one: Mapping[str, Any]) -> bool:
    value, values = labels.get(one["key"]), one.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[one["operator"]]
