# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods given to nodes one after the other, as the scheduler does where nothing but devices and requests counts. Pure.

The order is fixed, where the scheduler's depends on scores and chance: pods by priority, then as they are given;
nodes that give an earlier alternative of a claim first, then the least loaded (or the most, when packing), then as
they are listed. What did not fit on a node is not tried again before the node has got another pod.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, NamedTuple

from gpu_plugin._shared._base.dra.versions import RECOMMENDED, Version
from gpu_plugin._shared._base.errors import NodeError

from ..placement import claims as reading
from ..placement.claims import Claim, Refused, Request
from ..placement.devices import Devices, Use, broken
from ..placement.reasons import Reason, merged, reasons
from ..placement.search import Candidates, Given, search
from .nodes import Node
from .pods import Pod, Shape

MOST_USERS: Final = 256  # of a claim (resource.k8s.io/v1 ResourceClaimReservedForMaxSize)
_BEST: Final = 8  # alternatives that a request has at most: the first counts most
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
Json = Mapping[str, Any]
_Placed = tuple[int, tuple[Given, ...]]  # how good it is, and the devices


@dataclass
class State:
    """Everything but the pods. Claims and templates are by namespace and name; the version is Kubernetes'."""

    nodes: list[Node] = field(default_factory=list)
    classes: dict[str, Json] = field(default_factory=dict)
    templates: dict[tuple[str, str], Json] = field(default_factory=dict)
    claims: dict[tuple[str, str], Json] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    version: Version = RECOMMENDED


class Outcome(NamedTuple):
    """What becomes of a pod: its node and devices, or why it has none, with how many nodes say so."""

    pod: Pod
    node: str = ""
    given: tuple[Given, ...] = ()
    devices: Devices = Devices()
    why: tuple[tuple[str, int], ...] = ()


@dataclass
class _Shared:
    """A claim that pods name: what is to be allocated, or the node where it is."""

    claim: Claim | None
    node: str = ""
    users: int = 0


class _Wanted(NamedTuple):
    """What a pod wants: claims to be allocated, and the nodes that its others are on."""

    open: tuple[Claim, ...]
    nodes: frozenset[str]


class Scheduler:
    """Gives pods to nodes."""

    def __init__(self, state: State, *, pack: bool = False) -> None:
        self._state = state
        self._nodes = state.nodes
        self._resources = by_resource(state.classes)
        self._sign = -1 if pack else 1
        self._order = sorted((self._sign * one.load, at) for at, one in enumerate(self._nodes))
        self._taken = 0
        self._changes = [0] * len(self._nodes)
        self._claims: dict[str, Claim] = {}
        self._shared: dict[tuple[str, str], _Shared] = {}
        self._known: dict[Hashable, dict[int, tuple[int, _Placed | None]]] = {}  # by node
        self._failed: dict[Hashable, int] = {}  # how many pods had got a node when none fitted
        candidates = Candidates(state.classes, broken(one.devices for one in state.nodes))

        @cache
        def placed(claims: tuple[Claim, ...], devices: Devices, use: Use) -> _Placed | None:
            given = search(claims, devices, use, candidates, state.version)
            return None if given is None else (_score(claims, given), given)

        self._placed = placed
        self._reasons = cache(partial(reasons, candidates=candidates, version=state.version))
        self._implicit = cache(self._made)
        self._pending = cache(self._why)

    def run(self, pods: Iterable[Pod]) -> list[Outcome]:
        """Return what becomes of pods, in the order in which they were given."""
        numbered = list(enumerate(pods))
        found = {
            number: self._tried(pod)
            for number, pod in sorted(numbered, key=lambda pair: -pair[1].priority)
        }
        return [
            one if isinstance(one, Outcome) else Outcome(pod, why=self._pending(pod.shape, one))
            for number, pod in numbered
            for one in [found[number]]
        ]

    def _tried(self, pod: Pod) -> Outcome | _Wanted:
        """Return a pod's node or what is wrong with it, and what it wants where no node has that now."""
        try:
            if pod.problem:
                raise NodeError(pod.problem)
            shared = tuple(self._named(pod.namespace, one) for one in pod.shape.claims)
            if any(one.users >= MOST_USERS for one in shared):
                raise NodeError(f"a claim of it is in use by {MOST_USERS} pods, which is the most")
            wanted = _Wanted(
                tuple(one.claim for one in shared if one.claim and not one.node),
                frozenset(one.node for one in shared if one.node),
            )
            return self._given(pod, shared, wanted) or wanted
        except (NodeError, Refused) as error:
            return Outcome(pod, why=((str(error), 0),))

    def _named(self, namespace: str, raw: Json) -> _Shared:
        """Return a claim that a pod names, or that is made for it. NodeError: there is none."""
        if template := raw.get("resourceClaimTemplateName"):
            if (made := self._state.templates.get((namespace, str(template)))) is None:
                raise NodeError(f"the ResourceClaimTemplate {template} does not exist")
            return _Shared(self._claim(made.get("spec") or {}, str(raw.get("name", ""))))
        key = (namespace, str(raw.get("resourceClaimName") or ""))
        if key not in self._shared:
            if (found := self._state.claims.get(key)) is None:
                raise NodeError(f"the ResourceClaim {key[1]} does not exist")
            status = found.get("status") or {}
            if allocation := status.get("allocation"):
                users = len(status.get("reservedFor") or ())
                self._shared[key] = _Shared(None, _node_of(allocation), users)
            else:
                self._shared[key] = _Shared(self._claim(found, key[1]))
        return self._shared[key]

    def _claim(self, raw: Json, name: str) -> Claim:
        """Return a claim: those of equal specs are one object, so that they are placed once."""
        spec = raw.get("spec") or {}
        key = json.dumps(spec, sort_keys=True)
        if key not in self._claims:
            self._claims[key] = reading.claim(name, spec)
        return self._claims[key]

    def _given(self, pod: Pod, shared: Iterable[_Shared], wanted: _Wanted) -> Outcome | None:
        key = (pod.shape, wanted)
        if self._failed.get(key) == self._taken:
            return None
        tried = self._known.setdefault(key, {})
        most = _BEST * sum(bool(one[0].parent) for claim in wanted.open for one in claim.requests)
        best: tuple[int, int, tuple[Given, ...]] | None = None
        for _load, index in self._order:
            change, placed = tried.get(index, (-1, None))
            if change != self._changes[index]:
                placed = self._on(index, pod.shape, wanted)
                tried[index] = (self._changes[index], placed)
            if placed is None:
                continue
            score, given = placed
            if best is None or score > best[0]:
                best = (score, index, given)
            if score >= most:
                break
        if best is None:
            self._failed[key] = self._taken
            return None
        return self._commit(pod, shared, *best[1:])

    def _on(self, index: int, pod: Shape, wanted: _Wanted) -> _Placed | None:
        """Return what a node gives to a pod, with how good that is, None where it does not fit. Refused."""
        node = self._nodes[index]
        apart = wanted.nodes and wanted.nodes != {node.name}
        if apart or any(node.lacks(pod, self._resources)):
            return None
        return self._placed(self._asked(pod, wanted, node), node.devices, node.use)

    def _asked(self, pod: Shape, wanted: _Wanted, node: Node) -> tuple[Claim, ...]:
        """Return the claims of a pod on a node: with one for extended resources that are devices there."""
        if not pod.extended:
            return wanted.open
        names = frozenset(
            one for one in pod.extended if one in self._resources and not node.allocatable.get(one)
        )
        return wanted.open + self._implicit(pod, names)

    def _made(self, pod: Shape, names: Iterable[str]) -> tuple[Claim, ...]:
        return implicit(pod, {one: self._resources[one] for one in names})

    def _commit(
        self, pod: Pod, shared: Iterable[_Shared], index: int, given: tuple[Given, ...]
    ) -> Outcome:
        node = self._nodes[index]
        self._order.remove((self._sign * node.load, index))
        row = node.devices.row
        node.use = node.use.plus(
            (one.device, one.consumed if row[one.device].multiple else None) for one in given
        )
        node.take(pod.shape)
        self._taken += 1
        self._changes[index] += 1
        bisect.insort(self._order, (self._sign * node.load, index))
        for one in shared:
            one.node, one.users = node.name, one.users + 1
        return Outcome(pod, node.name, given, node.devices)

    def _why(self, pod: Shape, wanted: _Wanted) -> tuple[tuple[str, int], ...]:
        """Return why no node has room for a pod, with how many nodes say so."""
        if not self._nodes:
            return (("there are no nodes", 0),)
        if len(wanted.nodes) > 1:
            return ((f"its claims are on several nodes: {', '.join(sorted(wanted.nodes))}", 0),)
        found = [
            one
            for index, node in enumerate(self._nodes)
            if pod.node_name in ("", node.name)
            for one in self._lacking(index, pod, wanted)
        ]
        return tuple(merged(found)) or ((f"there is no node {pod.node_name}", 0),)

    def _lacking(self, index: int, pod: Shape, wanted: _Wanted) -> tuple[Reason, ...]:
        node = self._nodes[index]
        if wanted.nodes - {node.name}:
            return (Reason(f"a claim that it shares is on {', '.join(wanted.nodes)}"),)
        if lacks := tuple(node.lacks(pod, self._resources)):
            return lacks
        return self._reasons(self._asked(pod, wanted, node), node.devices, node.use)


def by_resource(classes: Mapping[str, Json]) -> dict[str, str]:
    """Return the DeviceClass of each extended resource; of two the newer, then the one that sorts first."""

    def born(name: str) -> str:
        return str(classes[name]["metadata"].get("creationTimestamp") or "")

    found = {}
    for name in sorted(sorted(classes, reverse=True), key=born):
        found[f"{_IMPLICIT}{name}"] = name
        if resource := (classes[name].get("spec") or {}).get("extendedResourceName"):
            found[str(resource)] = name
    return found


def implicit(pod: Shape, resources: Mapping[str, str]) -> tuple[Claim, ...]:
    """Return the claim that the scheduler makes for extended resources of a pod, by their classes; none without any.

    A request for each container; init containers that end use what later ones have.
    """
    requests = {}
    for resource, device_class in resources.items():
        counts = [0 if ends else asked.get(resource, 0) for ends, asked in pod.asking]
        more = [
            (asked.get(resource, 0) - sum(counts[at:]), -at)
            for at, (ends, asked) in enumerate(pod.asking)
            if ends
        ]
        most, at = max(more, default=(0, 0))
        if most > 0:
            counts[-at] = most
        for at, count in enumerate(counts):
            if count:
                name = f"container-{at}-request-{sorted(pod.asking[at][1]).index(resource)}"
                requests[name] = (Request(name, "", device_class, count),)
    rows = tuple(requests[name] for name in sorted(requests))
    return (Claim("extended-resources", rows),) if rows else ()


def _node_of(allocation: Json) -> str:
    """Return the node that an allocation is for, empty where it is for any."""
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one.get("key") == "metadata.name" and one.get("values"):
                return str(one["values"][0])
    return ""


def _score(claims: Sequence[Claim], given: Iterable[Given]) -> int:
    """Return how early the alternatives are that a node gives, as the scheduler scores them."""
    got = {(one.claim, one.request) for one in given}
    return sum(
        _BEST - position
        for number, claim in enumerate(claims)
        for request in claim.requests
        for position, one in enumerate(request)
        if one.parent and (number, one.full_name) in got
    )
