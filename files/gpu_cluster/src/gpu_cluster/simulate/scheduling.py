# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods given to nodes one after the other, as the scheduler does where nothing but devices and requests counts. Pure.

The order is fixed, where the scheduler's depends on scores and chance: pods by priority, then as they are given;
nodes that give an earlier alternative of a claim first, then the least loaded (or the most, when packing), then as
they are listed.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gpu_plugin._shared._base.errors import NodeError

from ..placement.candidates import Refused
from ..placement.claims import Claim
from ..placement.placer import Placed
from .cluster_state import Claims, State
from .extended import claim as extended_claim
from .fits import Fits
from .values import Node, Outcome, Pod, SharedClaim

MOST_USERS: Final = 256  # of a claim (resource.k8s.io/v1 ResourceClaimReservedForMaxSize)
_BEST: Final = 8  # alternatives that a request has at most: the first counts most


@dataclass(frozen=True)
class _Wanted:
    """What a pod wants: claims to be allocated, and the nodes that claims which it shares are on."""

    shared: tuple[SharedClaim, ...]
    nodes: frozenset[str]

    @cached_property
    def open(self) -> tuple[Claim, ...]:
        """The claims that are not allocated yet."""
        return tuple(one.claim for one in self.shared if one.claim is not None and not one.node)


class Scheduler:
    """Gives pods to nodes."""

    def __init__(self, state: State, claims: Claims, *, pack: bool = False) -> None:
        self._nodes = state.nodes
        self._claims = claims
        self._fits = Fits(claims.placer(), state.nodes, claims.resources)
        self._sign = -1 if pack else 1
        self._order = sorted(
            (self._sign * one.load, index) for index, one in enumerate(self._nodes)
        )
        self._changed: list[int] = []  # nodes, each time that they were given a pod
        self._failed: dict[
            tuple[object, ...], int
        ] = {}  # how many of them there were when nothing fitted
        self._extended: dict[tuple[object, frozenset[str]], Claim | None] = {}

    def run(self, pods: Iterable[Pod]) -> list[Outcome]:
        """Return what becomes of pods, in the order in which they were given."""
        numbered = list(enumerate(pods))
        outcomes: dict[int, Outcome] = {}
        waiting: list[tuple[int, Pod, _Wanted]] = []
        for number, pod in sorted(numbered, key=lambda pair: -pair[1].priority):
            try:
                wanted = self._wanted(pod)
                outcome = self._placed(pod, wanted)
            except (NodeError, Refused) as error:
                outcome = Outcome(pod, why=((str(error), 0),))
            else:
                if outcome is None:
                    waiting.append((number, pod, wanted))
                    continue
            outcomes[number] = outcome
        for number, pod, wanted in waiting:
            outcomes[number] = Outcome(pod, why=self._why(pod, wanted))
        return [outcomes[number] for number in range(len(numbered))]

    def _wanted(self, pod: Pod) -> _Wanted:
        if pod.problem:
            raise NodeError(pod.problem)
        shared = tuple(self._claims.named(pod, one) for one in pod.shape.claims)
        if any(one.users >= MOST_USERS for one in shared):
            raise NodeError(f"a claim of it is in use by {MOST_USERS} pods, which is the most")
        return _Wanted(shared, frozenset(one.node for one in shared if one.node))

    def _placed(self, pod: Pod, wanted: _Wanted) -> Outcome | None:
        enough = sum(
            _BEST for claim in wanted.open for request in claim.requests if request[0].parent
        )
        best: tuple[int, int, Placed] | None = None
        for index in self._worth_trying(pod, wanted):
            node = self._nodes[index]
            placed = self._fits.placed(pod.shape, self._on(node, pod, wanted), node, index)
            if placed is None:
                continue
            score = _score(wanted.open, placed) if enough else 0
            if best is None or score > best[0]:
                best = (score, index, placed)
            if score == enough:
                break
        if best is None:
            self._failed[pod.shape, wanted.open, wanted.nodes] = len(self._changed)
            return None
        return self._commit(pod, wanted, *best[1:])

    def _worth_trying(self, pod: Pod, wanted: _Wanted) -> Iterator[int]:
        """Yield the nodes in order: where a claim is allocated already its node, and none that was tried as it is."""
        failed = self._failed.get((pod.shape, wanted.open, wanted.nodes))
        order = self._order
        if failed is not None:
            changed = set(self._changed[failed:])
            order = sorted((self._sign * self._nodes[index].load, index) for index in changed)
        unfit = self._fits.unfit(pod.shape, wanted.open)
        for _load, index in order:
            if unfit.get(index) == self._nodes[index].version:
                continue
            if not wanted.nodes or wanted.nodes == {self._nodes[index].name}:
                yield index

    def _on(self, node: Node, pod: Pod, wanted: _Wanted) -> tuple[Claim, ...]:
        """Return the claims of a pod on a node: with one for extended resources that are devices there."""
        if not pod.shape.extended:
            return wanted.open
        names = frozenset(
            name
            for name in pod.shape.extended
            if name in self._claims.resources and not node.extended.get(name)
        )
        key = (pod.shape, names)
        if key not in self._extended:
            resources = {name: self._claims.resources[name] for name in names}
            self._extended[key] = extended_claim(pod.shape, resources)
        extra = self._extended[key]
        return (*wanted.open, extra) if extra else wanted.open

    def _commit(self, pod: Pod, wanted: _Wanted, index: int, placed: Placed) -> Outcome:
        node = self._nodes[index]
        self._order.remove((self._sign * node.load, index))
        self._fits.take(pod.shape, node, placed)
        self._changed.append(index)
        bisect.insort(self._order, (self._sign * node.load, index))
        for one in wanted.shared:
            one.node, one.users = node.name, one.users + 1
        return Outcome(pod, node.name, placed.given, node.devices)

    def _why(self, pod: Pod, wanted: _Wanted) -> tuple[tuple[str, int], ...]:
        if not self._nodes:
            return (("there are no nodes", 0),)
        if len(wanted.nodes) > 1:
            return ((f"its claims are on several nodes: {', '.join(sorted(wanted.nodes))}", 0),)
        rows = [
            (index, node, self._on(node, pod, wanted))
            for index, node in enumerate(self._nodes)
            if pod.shape.node_name in ("", node.name)
        ]
        if not rows:
            return ((f"there is no node {pod.shape.node_name}", 0),)
        return self._fits.why(pod.shape, rows, wanted.nodes)


def _score(claims: Sequence[Claim], placed: Placed) -> int:
    """Return how early the alternatives are that a node gives, as the scheduler scores them."""
    given = {(one.claim, one.request) for one in placed.given}
    return sum(
        _BEST - position
        for number, claim in enumerate(claims)
        for request in claim.requests
        for position, one in enumerate(request)
        if one.parent and (number, one.full_name) in given
    )
