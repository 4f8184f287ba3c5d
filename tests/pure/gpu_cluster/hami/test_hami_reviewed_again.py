# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods that are reviewed again, after other admission plugins have changed them."""

from __future__ import annotations

from typing import Any

from gpu_cluster.hami.errors import Refused
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.settings import Names
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fakes.cluster.hami_pods import OTHER_NODES, SETTINGS, Json, applied, limits, pod

AMOUNTS = st.dictionaries(st.sampled_from(Names().all), st.sampled_from(["0", "1", "20", "3000"]))
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "gpu": st.integers(0, 3),
        "gpumem": st.integers(0, 9000),
        "gpumem_percentage": st.integers(0, 100),
        "gpucores": st.integers(0, 100),
        "priority": st.integers(0, 1),
    },
)
CONTAINERS = st.lists(ASKED, min_size=1, max_size=3)


def add_defaults(document: Json, defaults: Json) -> Json:
    """Do what LimitRanger does: give each container the default of each resource that it doesn't have."""
    for container in document["spec"]["containers"]:
        resources = container["resources"]
        for part in ("limits", "requests"):
            resources[part] = {**defaults, **(resources.get(part) or {})}
    return document


def set_amounts(document: Json, amounts: Json) -> Json:
    """Do what a policy may do: set resources of each container."""
    for container in document["spec"]["containers"]:
        for part in ("limits", "requests"):
            container["resources"].setdefault(part, {}).update(amounts)
    return document


def admit(document: Json) -> tuple[Json, Any]:
    try:
        mutation = mutate(document, SETTINGS, OTHER_NODES)
    except Refused:
        assume(False)
        raise
    return applied(document, mutation.patch), mutation


def claims(document: Json) -> list[list[Json]]:
    return [one["resources"].get("claims", []) for one in document["spec"]["containers"]]


@given(CONTAINERS, AMOUNTS)
def test_defaults_change_nothing_after_a_review(containers: list[Json], defaults: Json) -> None:
    asked = add_defaults(pod(*(limits(**amounts) for amounts in containers)), defaults)
    admitted, _first = admit(asked)
    again, second = admit(add_defaults(admitted, defaults))
    assert (second.patch, second.templates) == ([], ())
    assert again == admitted


@given(CONTAINERS, AMOUNTS)
def test_a_container_with_a_claim_gets_no_other(containers: list[Json], amounts: Json) -> None:
    admitted, _first = admit(pod(*(limits(**asked) for asked in containers)))
    claimed = [bool(named) for named in claims(admitted)]
    again, second = admit(set_amounts(admitted, amounts))
    for had, before, after in zip(claimed, claims(admitted), claims(again), strict=True):
        assert not had or before == after
    changed = [value for value in amounts.values() if value != "0"]
    assert bool(changed and any(claimed)) <= bool(second.warnings)


def test_an_amount_that_comes_after_the_claim_is_told() -> None:
    admitted, _first = admit(pod(limits(gpu=1, gpumem=3000)))
    again, second = admit(set_amounts(admitted, {"nvidia.com/gpumem": "4000"}))
    assert second.warnings == (
        "spec.containers[0].resources.limits[nvidia.com/gpumem] has no effect, as the container has a claim already",
        "spec.containers[0].resources.requests[nvidia.com/gpumem] has no effect, as the container has a claim already",
    )
    resources = again["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": "0", "nvidia.com/gpumem": "0"}
    assert again["spec"]["resourceClaims"] == admitted["spec"]["resourceClaims"]
