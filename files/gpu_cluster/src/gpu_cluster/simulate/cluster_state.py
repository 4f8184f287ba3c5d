# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a simulation knows: nodes, classes, claims and their templates. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_plugin._shared._base.dra.versions import RECOMMENDED, Version
from gpu_plugin._shared._base.errors import NodeError

from ..placement import claims as placement_claims
from ..placement.candidates import Refused
from ..placement.cel import Selector
from ..placement.claims import Claim
from ..placement.placer import Placer
from ..placement.values import broken
from .extended import classes_by_resource
from .values import ClaimRef, Node, Pod, SharedClaim

Json = Mapping[str, Any]


@dataclass
class State:
    """Everything but the pods. Claims and templates are by namespace and name; the version is Kubernetes'."""

    nodes: list[Node] = field(default_factory=list)
    classes: dict[str, Json] = field(default_factory=dict)
    templates: dict[tuple[str, str], Json] = field(default_factory=dict)
    claims: dict[tuple[str, str], SharedClaim] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    version: Version = RECOMMENDED


class Claims:
    """The claims of pods as placement knows them; equal ones are one object, so that they are placed once."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[str, Claim] = {}
        self._made: dict[tuple[str, str], Claim] = {}
        self.resources = classes_by_resource(state.classes.values())

    def placer(self) -> Placer:
        """Return what places claims of the classes. A class that is not understood is an error when it is used."""
        pool = broken(node.devices for node in self._state.nodes)
        return Placer(_Classes(self._state.classes), pool, self._state.version)

    def named(self, pod: Pod, ref: ClaimRef) -> SharedClaim:
        """Return a claim that a pod names, or that is made for it. NodeError: there is none."""
        if ref.template:
            template = self._state.templates.get((pod.namespace, ref.template))
            if template is None:
                raise NodeError(f"the ResourceClaimTemplate {ref.template} does not exist")
            key = (pod.namespace, ref.template)
            if key not in self._made:
                self._made[key] = self.of((template.get("spec") or {}).get("spec") or {}, ref.name)
            return SharedClaim(self._made[key])
        found = self._state.claims.get((pod.namespace, ref.claim))
        if found is None:
            raise NodeError(f"the ResourceClaim {ref.claim} does not exist")
        return found

    def of(self, spec: Json, name: str) -> Claim:
        """Return a claim by its spec; its name is that of the first with this spec."""
        key = json.dumps(spec, sort_keys=True)
        if key not in self._known:
            self._known[key] = placement_claims.claim(name, spec)
        return self._known[key]


class _Classes(dict[str, tuple[Selector, ...]]):
    """The selectors of classes, read when they are needed: others may use what is not understood here."""

    def __init__(self, objects: Mapping[str, Json]) -> None:
        super().__init__()
        self._objects = objects

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def __missing__(self, name: str) -> tuple[Selector, ...]:
        try:
            self[name] = placement_claims.classes({name: self._objects[name]})[name]
        except NodeError as error:
            raise Refused(str(error)) from error
        return self[name]


def add_claims(state: State, objects: Iterable[Json], known: Claims) -> None:
    """Add ResourceClaims, those of a cluster with what they have."""
    for one in objects:
        meta, allocation = one["metadata"], (one.get("status") or {}).get("allocation")
        key = (str(meta.get("namespace") or "default"), str(meta["name"]))
        users = len((one.get("status") or {}).get("reservedFor") or ())
        if allocation:
            state.claims[key] = SharedClaim(None, allocated_node(allocation), users)
        else:
            state.claims[key] = SharedClaim(known.of(one.get("spec") or {}, key[1]))


def allocated_node(allocation: Json) -> str:
    """Return the node that an allocation is for, empty where it is for any."""
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one.get("key") == "metadata.name" and one.get("values"):
                return str(one["values"][0])
    return ""
