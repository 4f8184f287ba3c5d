# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What holds of all simulations: nothing is given twice, and what is remembered changes no answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpu_cluster.placement import claims as placement_claims
from gpu_cluster.placement.devices import left
from gpu_cluster.placement.search import Candidates, search
from gpu_cluster.simulate import inventory
from gpu_cluster.simulate.nodes import Node
from gpu_cluster.simulate.objects import CLASSES
from gpu_cluster.simulate.pods import Pod, Shape
from gpu_cluster.simulate.scheduler import Outcome, Scheduler, State
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.cluster.placing import added
from tests.fakes.cluster.simulating import Json, share, template, whole

SIZES = ("T4", "NVIDIA A30", "Tesla V100-SXM2-32GB")
GPUS = st.builds(
    lambda product, count, mig: {
        "product": product,
        "count": count,
        "mig": mig and "A30" in product,
    },
    st.sampled_from(SIZES),
    st.integers(1, 3),
    st.booleans(),
)
ROWS = st.builds(
    lambda gpus, count: {"gpus": gpus, "count": count},
    st.lists(GPUS, min_size=1, max_size=2),
    st.integers(1, 3),
)
NODES = st.lists(ROWS, min_size=1, max_size=3)
HALF = {"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '2g.12gb'"}}


def _alternatives(first: Json, second: Json) -> Json:
    some = [{"name": name, **one["exactly"]} for name, one in (("a", first), ("b", second))]
    return {"name": "r", "firstAvailable": some}


AMOUNTS = st.sampled_from(("500Mi", "3000Mi", "8Gi", "20Gi", "1500001"))
SHARES = st.builds(
    lambda memory, cores: share(memory=memory, cores=cores),
    AMOUNTS,
    st.sampled_from(("0", "30", "55")),
)
SINGLE = st.one_of(
    SHARES,
    SHARES,
    st.builds(lambda count, memory: share(count=count, memory=memory), st.integers(1, 2), AMOUNTS),
    st.just(whole()),
    st.just(whole(kind="mig")),
    st.just(whole(kind="mig", selectors=[HALF])),
)
REQUESTS = st.one_of(SINGLE, SINGLE, SINGLE, st.builds(_alternatives, SINGLE, SINGLE))
KINDS = st.lists(REQUESTS, min_size=1, max_size=4)


def _nodes(rows: Sequence[Json]) -> list[Node]:
    named = [{"name": f"n{number}", **row} for number, row in enumerate(rows)]
    return inventory.nodes(json.dumps({"nodes": named}), "nodes")[0]


def _pods(
    kinds: Sequence[Json], order: Sequence[int]
) -> tuple[dict[tuple[str, str], Json], list[Pod]]:
    templates = {
        ("default", str(number)): template(str(number), one) for number, one in enumerate(kinds)
    }
    named = [{"name": "c", "resourceClaimTemplateName": str(at)} for at in range(len(kinds))]
    shapes = [Shape(claims=(one,)) for one in named]
    return templates, [
        Pod("default", f"p{n}", "", shapes[kind % len(kinds)]) for n, kind in enumerate(order)
    ]


def _run(
    rows: Sequence[Json], kinds: Sequence[Json], order: Sequence[int], **how: Any
) -> tuple[list[Node], list[Outcome]]:
    templates, pods = _pods(kinds, order)
    state = State(_nodes(rows), dict(CLASSES), templates)
    return state.nodes, Scheduler(state, **how).run(pods)


ORDERS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@given(NODES, KINDS, ORDERS, st.booleans())
@settings(max_examples=40)
def test_nothing_is_given_beyond_what_there_is(
    rows: list[Json], kinds: list[Json], order: list[int], pack: bool
) -> None:
    nodes, outcomes = _run(rows, kinds, order, pack=pack)
    given_whole = Counter(
        (one.node, each.device)
        for one in outcomes
        for each in one.given
        if not one.devices.row[each.device].multiple
    )
    assert all(count == 1 for count in given_whole.values())
    for node in nodes:
        for index, amounts in node.use.capacity.items():
            capacities = node.devices.row[index].capacities
            assert all(amount <= capacities[name].value for name, amount in amounts.items())
        for pool in node.devices.pools:
            assert all(amount >= 0 for amount in left(pool, node.devices, node.use).values())
    assert sum(node.pods for node in nodes) == sum(bool(one.node) for one in outcomes)
    assert all(one.why for one in outcomes if not one.node)


@given(NODES, KINDS, ORDERS, st.booleans())
@settings(max_examples=40)
def test_what_is_remembered_changes_no_answer(
    rows: list[Json], kinds: list[Json], order: list[int], pack: bool
) -> None:
    outcomes = _run(rows, kinds, order, pack=pack)[1]
    asked = [placement_claims.claim("c", {"devices": {"requests": [one]}}) for one in kinds]
    nodes, sign = _nodes(rows), -1 if pack else 1
    for kind, outcome in zip(order, outcomes, strict=True):
        assert outcome.node == _slowly(nodes, asked[kind % len(kinds)], sign)


def _slowly(nodes: Sequence[Node], asked: placement_claims.Claim, sign: int) -> str:
    """Place a claim with nothing remembered, and return the node."""
    candidates = Candidates(CLASSES)
    best: tuple[int, float, int] | None = None
    for index, node in enumerate(nodes):
        given_here = search((asked,), node.devices, node.use, candidates)
        if given_here is None:
            continue
        place = [
            number
            for number, one in enumerate(asked.requests[0])
            if one.full_name == given_here[0].request
        ]
        key = (place[0], sign * node.load, index)
        best = key if best is None else min(best, key)
    if best is None:
        return ""
    node = nodes[best[2]]
    given_here = search((asked,), node.devices, node.use, candidates)
    assert given_here is not None
    node.use = added(node.use, given_here, node.devices)
    node.used["pods"] = node.pods + 1
    return node.name


@given(NODES, NODES, SINGLE)
@settings(max_examples=20)
def test_more_nodes_run_as_many_more_equal_pods_as_they_run_alone(
    some: list[Json], more: list[Json], kind: Json
) -> None:
    def running(rows: list[Json]) -> int:
        return sum(bool(one.node) for one in _run(rows, [kind], [0] * 400)[1])

    assert running([*some, *more]) == min(running(some) + running(more), 400)


@given(NODES, KINDS, ORDERS, st.randoms())
@settings(max_examples=20)
def test_the_same_again_and_as_many_equal_pods_in_any_order_of_nodes(
    rows: list[Json], kinds: list[Json], order: list[int], chance: Any
) -> None:
    before, again = (_run(rows, kinds, order)[1] for _time in range(2))
    assert [(one.node, one.given) for one in again] == [(one.node, one.given) for one in before]
    shuffled = list(rows)
    chance.shuffle(shuffled)
    counts = [
        sum(bool(one.node) for one in _run(of, kinds[:1], order)[1]) for of in (rows, shuffled)
    ]
    assert counts[0] == counts[1]
