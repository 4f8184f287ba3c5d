# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The shape of a node in a report: what the page reads, and docs/operations/report.md says of the JSON. Pure.

A shape is a type of JSON, a tuple of shapes of which one holds, a list of a shape, a mapping of all keys to shapes, or
one of any texts to a shape.
What a node's answer has in the same words is imported from where the node writes it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import is_whole
from ansible_collections.gpu.node.plugins.module_utils._checks.report import acceptance
from ansible_collections.gpu.node.plugins.module_utils._checks.report.cases import ROW
from ansible_collections.gpu.node.plugins.module_utils._checks.report.status import FAULT
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import OF_NODE

Holds = t.Callable[[t.Any], bool]
NONE = type(None)


def texts(*keys: str) -> t.Dict[str, t.Any]:
    """Return the shape of a mapping to texts."""
    return dict.fromkeys(keys, str)


USER = texts("kind", "name", "detail", "device")
# ``start`` and ``size`` are in memory slices, ``memory`` of a GPU is in bytes.
INSTANCE = {
    **texts("profile", "fault"),
    **dict.fromkeys(("id", "start", "size"), int),
    "devices": [str],
    "users": [USER],
}
ACCEPTANCE = {key: kind for key, kind in acceptance.ROW.items() if key != "gpu"}
GPU = {
    **texts("uuid", "name", "fault"),
    **dict.fromkeys(("index", "memory", "slots"), int),
    **dict.fromkeys(("mig", "in_use", "known"), bool),
    "instances": [INSTANCE],
    "users": [USER],
    "acceptance": ACCEPTANCE,
}
# Texts are empty if they are not known.
DRIVER = {
    **texts("version", "type", "branch", "kind", "end_of_support"),
    **texts("floor", "bulletin", "bulletin_date", "table"),
    **dict.fromkeys(("outdated", "vulnerable"), bool),
    "days": (int, NONE),
    "unfixed": [str],
}
PART = {**texts("part", "error", "later"), "steps": [str], "blocked_by": [str]}
# ``gpu`` is empty for the node; ``index`` is that of a GPU that answers.
QUARANTINED = {"gpu": str, "index": (int, NONE), **texts(*OF_NODE)}
# ``index`` and ``model`` are not known of a GPU that is gone.
CASE = {**ROW, "index": (int, NONE), "model": str}
CHANGE = texts("change", "host", "user", "begun", "failed", "problem", "way")
NODE = {
    **texts("name", "state", "problem", "system", "kernel", "users_unknown", "cases_unknown"),
    **{key: [str] for key in ("warnings", "unhealthy", "reboot")},
    "pci_gpus": int,
    "driver": DRIVER,
    "gpus": [GPU],
    "other_users": [USER],
    "drift": [PART],
    "faults": [FAULT],
    "quarantine": [QUARANTINED],
    "cases": [CASE],
    "change": (CHANGE, {}),
    "labels": {str: str},
}


def holds(shape: t.Any) -> Holds:
    """Return a predicate that tells whether a value of JSON has a shape."""
    if isinstance(shape, tuple):
        kinds = [holds(each) for each in shape]
        return lambda value: any(has_shape(value) for has_shape in kinds)
    if isinstance(shape, list):
        inner = holds(shape[0])
        return lambda value: isinstance(value, list) and all(map(inner, value))
    if isinstance(shape, dict) and list(shape) == [str]:
        has_kind = holds(shape[str])
        return lambda value: (
            isinstance(value, dict)
            and all(isinstance(key, str) and has_kind(each) for key, each in value.items())
        )
    if isinstance(shape, dict):
        keys = {key: holds(each) for key, each in shape.items()}
        return lambda value: (
            isinstance(value, dict)
            and value.keys() == keys.keys()
            and all(keys[key](each) for key, each in value.items())
        )
    return is_whole if shape is int else lambda value: isinstance(value, shape)


is_node = holds(NODE)
