# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a report holds of a node: all that the page reads, and what docs/operations/report.md says of the JSON. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import is_whole

Holds = t.Callable[[t.Any], bool]


class User(t.TypedDict):
    """Who uses a GPU or an instance."""

    kind: str
    name: str
    detail: str
    device: str


class Instance(t.TypedDict):
    """A GPU instance; ``start`` and ``size`` are in memory slices."""

    id: int
    profile: str
    start: int
    size: int
    devices: t.List[str]
    users: t.List[User]
    fault: str


class Gpu(t.TypedDict):
    """A GPU that answers; ``memory`` is in bytes."""

    index: int
    uuid: str
    name: str
    memory: int
    mig: bool
    slots: int
    instances: t.List[Instance]
    users: t.List[User]
    in_use: bool
    known: bool
    fault: str


class Driver(t.TypedDict):
    """The loaded driver; texts are empty where they are not known."""

    version: str
    type: str
    branch: str
    kind: str
    end_of_support: str
    days: t.Optional[int]
    outdated: bool
    vulnerable: bool
    floor: str
    bulletin: str
    bulletin_date: str
    unfixed: t.List[str]
    table: str


class Part(t.TypedDict):
    """What has drifted of a part, and what a run would do."""

    part: str
    steps: t.List[str]
    error: str
    later: str
    blocked_by: t.List[str]


class Fault(t.TypedDict):
    """A fault as the device plugin tells it; ``since`` is in seconds since 1970."""

    gpu: str
    index: t.Optional[str]
    gi: t.Optional[int]
    ci: t.Optional[int]
    kind: t.Optional[str]
    reason: str
    since: t.Optional[int]
    way_back: t.Optional[str]
    clearable: t.Optional[bool]
    verdict: t.Optional[str]
    xid: t.Optional[int]


class Quarantined(t.TypedDict):
    """A GPU that is set aside, or the node where ``gpu`` is empty; ``index`` is there for a GPU that answers."""

    gpu: str
    index: t.Optional[int]
    by: str
    reason: str
    ticket: str
    since: str


class Tried(t.TypedDict):
    """Something that was tried for a GPU; ``at`` is in seconds since 1970, ``result`` empty where it is not known."""

    action: str
    at: int
    result: str


class Told(t.TypedDict):
    """What a node tells of a GPU's repair; ``since`` is in seconds since 1970."""

    gpu: str
    serial: str
    pci: str
    open: bool
    verdict: str
    reasons: t.List[str]
    since: int
    stage: str
    evidence: str
    next: str


class Case(Told):
    """A repair of a GPU. ``index`` and ``model`` are not known of one that is gone."""

    attempts: t.List[Tried]
    index: t.Optional[int]
    model: str


class Change(t.TypedDict):
    """A change in service that has not ended."""

    change: str
    host: str
    user: str
    begun: str
    failed: str
    problem: str
    way: str


class Nothing(t.TypedDict):
    """No change."""


class Node(t.TypedDict):
    """A node."""

    name: str
    state: str
    problem: str
    system: str
    kernel: str
    pci_gpus: int
    driver: Driver
    gpus: t.List[Gpu]
    other_users: t.List[User]
    users_unknown: str
    drift: t.List[Part]
    warnings: t.List[str]
    faults: t.List[Fault]
    quarantine: t.List[Quarantined]
    cases: t.List[Case]
    cases_unknown: str
    unhealthy: t.List[str]
    reboot: t.List[str]
    change: t.Union[Change, Nothing]
    labels: t.Dict[str, str]


def holds(of: t.Any) -> Holds:
    """Return what tells whether a value of JSON is of a type: one of these, a list, a dict, a union or a plain one."""
    inner = [holds(one) for one in t.get_args(of)]
    if t.is_typeddict(of):
        return _keyed({key: holds(one) for key, one in t.get_type_hints(of).items()})
    if t.get_origin(of) is list:
        return lambda value: isinstance(value, list) and all(map(inner[0], value))
    if t.get_origin(of) is dict:
        return lambda value: (
            isinstance(value, dict)
            and all(map(inner[0], value))
            and all(map(inner[1], value.values()))
        )
    if inner:
        return lambda value: any(one(value) for one in inner)
    return is_whole if of is int else lambda value: isinstance(value, of)


def _keyed(keys: t.Mapping[str, Holds]) -> Holds:
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == keys.keys()
        and all(keys[key](one) for key, one in value.items())
    )


is_node = holds(Node)
