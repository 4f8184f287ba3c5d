# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pods a drain evicts, which it leaves, and which stand in its way."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cluster.drain.triage import (
    ALL,
    ANSWERS,
    CHOICES,
    DELETE,
    GPU,
    Rules,
    Triage,
    triage,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.pods import Pod
from hypothesis import given
from hypothesis import strategies as st

PODS = st.builds(
    Pod,
    namespace=st.sampled_from(["default", "train"]),
    name=st.sampled_from(["a", "b", "c"]),
    uid=st.uuids().map(str),
    node=st.sampled_from(["node-1", "node-1", "node-2", ""]),
    controller=st.sampled_from(["", "ReplicaSet", "Job", "DaemonSet", "Node", "PyTorchJob"]),
    finished=st.booleans(),
    terminating=st.booleans(),
    mirror=st.booleans(),
    runs_to_completion=st.booleans(),
    emptydirs=st.sampled_from([(), ("scratch",)]),
    gpus=st.sampled_from([(), ("nvidia.com/gpu: 1",)]),
    opens=st.booleans(),
)
RULES = st.builds(
    Rules,
    node=st.just("node-1"),
    pods=st.sampled_from(CHOICES),
    bare_pods=st.sampled_from(ANSWERS),
    emptydir=st.sampled_from(ANSWERS),
    finish=st.booleans(),
)
MANY = st.lists(PODS, max_size=8)


def places(found: Triage) -> list[Pod]:
    """Return the pods of all places."""
    refused, left = ([pod for pod, _why in some] for some in (found.refused, found.left))
    return [*found.evict, *found.finishing, *found.ending, *refused, *left]


@given(MANY, RULES)
def test_each_pod_is_in_one_place(pods: list[Pod], rules: Rules) -> None:
    assert sorted(places(triage(pods, rules)), key=repr) == sorted(pods, key=repr)


@given(MANY, RULES)
def test_what_has_to_stay_is_never_evicted(pods: list[Pod], rules: Rules) -> None:
    for pod in triage(pods, rules).to_go:
        assert pod.node == "node-1"
        assert not pod.mirror
        assert not pod.finished
        assert pod.controller != "DaemonSet"
        assert pod.gpus or rules.pods == ALL


@given(MANY, RULES)
def test_nothing_is_lost_that_the_user_did_not_give_up(pods: list[Pod], rules: Rules) -> None:
    for pod in triage(pods, rules).evict:
        assert pod.controller or rules.bare_pods == DELETE
        assert not pod.emptydirs or rules.emptydir == DELETE


@given(MANY, RULES)
def test_who_gives_up_all_is_refused_nothing(pods: list[Pod], rules: Rules) -> None:
    found = triage(pods, dataclasses.replace(rules, bare_pods=DELETE, emptydir=DELETE))
    assert found.refused == ()
    assert set(triage(pods, rules).evict) <= {*found.evict, *found.finishing}


@given(MANY, RULES)
def test_pods_with_gpus_are_among_all_pods(pods: list[Pod], rules: Rules) -> None:
    some, every = (triage(pods, dataclasses.replace(rules, pods=one)) for one in (GPU, ALL))
    assert set(some.to_go) <= set(every.to_go)
    assert {pod for pod, _why in some.refused} <= {pod for pod, _why in every.refused}


@given(MANY, RULES)
def test_what_may_finish_is_asked_for_at_the_end_all_the_same(
    pods: list[Pod], rules: Rules
) -> None:
    first, then = (triage(pods, dataclasses.replace(rules, finish=one)) for one in (True, False))
    later = {*then.evict, *(pod for pod, _why in then.refused)}
    assert {*first.evict, *first.finishing, *(pod for pod, _why in first.refused)} == later
    assert then.finishing == ()
    assert all(pod.runs_to_completion for pod in first.finishing)


def test_why_each_is_refused_is_said() -> None:
    pod = Pod(
        "default", "a", "1", "node-1", emptydirs=("cache", "shm"), gpus=("nvidia.com/gpu: 1",)
    )
    [(_pod, why)] = triage([pod], Rules("node-1")).refused
    assert why == "has no controller that makes it again and has data in emptyDir (cache, shm)"


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ({}, True),
        ({"gpus": (), "opens": True}, True),
        ({"gpus": ()}, False),
        ({"finished": True}, False),
        ({"node": "node-2"}, False),
    ],
)
def test_pods_that_stay_with_gpus_are_named(change: dict[str, object], held: bool) -> None:
    pod = Pod("default", "a", "1", "node-1", "DaemonSet", gpus=("nvidia.com/gpu: 1",))
    changed = dataclasses.replace(pod, **change)  # type: ignore[arg-type]
    assert bool(triage([changed], Rules("node-1")).holders) == held
