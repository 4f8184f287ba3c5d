# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods that ask for more work than any pod is."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest
from gpu_cluster.hami import mutation
from gpu_cluster.hami.errors import Refused
from gpu_cluster.hami.mutation import MOST_ASKING, mutate

from tests.fakes.cluster.hami_pods import MPS_NODES, SETTINGS, Json, limits, pod

SHARE = limits(gpu=1, gpumem=100)


def named(*names: str) -> Json:
    return pod(*({"name": one, "resources": {"limits": SHARE}} for one in names))


@pytest.mark.attack("webhook-kept-busy")
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_a_name_of_a_container_twice_is_refused(field: str) -> None:
    one = named("a", "b")
    one["spec"][field] = [*one["spec"].get(field, ()), {"name": "a"}, {"name": "a"}]
    with pytest.raises(Refused, match=rf"spec\.{field}\[.\]\.name: 'a' can't be: .* twice"):
        mutate(one, SETTINGS, MPS_NODES)


@pytest.mark.attack("webhook-kept-busy")
def test_more_containers_that_ask_than_the_most_are_refused() -> None:
    names = [f"c{number}" for number in range(MOST_ASKING + 1)]
    assert len(mutate(named(*names[1:]), SETTINGS, MPS_NODES).patch) > MOST_ASKING
    with pytest.raises(Refused, match=f"spec.containers: {len(names)} can't be: .* {MOST_ASKING} "):
        mutate(named(*names), SETTINGS, MPS_NODES)


@pytest.mark.attack("webhook-kept-busy")
def test_a_name_of_a_claim_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are taken cost one look each, however many containers want the same."""
    tried: list[bytes] = []

    def sha256(text: bytes) -> object:
        tried.append(text)
        return hashlib.sha256(text)

    monkeypatch.setattr(mutation, "hashlib", SimpleNamespace(sha256=sha256))
    places = [mutation._Place("containers", number, {"name": "a"}) for number in range(100)]
    template = mutate(named("a"), SETTINGS, MPS_NODES).templates[0]
    patch = mutation._claims({}, [(place, template) for place in places])
    assert len({one["name"] for one in patch[0]["value"]}) == len(places)
    assert len(tried) < len(places)


def test_the_deadline_is_looked_at_between_containers() -> None:
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) > 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        mutate(named("a", "b", "c"), SETTINGS, MPS_NODES, look)
