# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What namespaces may have made, and how long a review may take."""

from __future__ import annotations

import pytest
from gpu_cluster.webhook import limits
from gpu_cluster.webhook.budget import Budget, Deadline, Late, OverLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.attack("webhook-templates-for-anybody")
def test_a_namespace_has_so_many_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_IN_NAMESPACE", 4)
    budget = Budget(Clock())
    budget.counted({"full": 2})
    for _each in range(2):
        budget.make("full")
        budget.make("other")
        budget.made("full")
    with pytest.raises(OverLimit, match=r"namespace full has 4 .*at most 4.*share a tem") as told:
        budget.make("full")
    assert told.value.status == 403
    budget.counted({"full": 2})
    budget.make("full")


@pytest.mark.attack("webhook-templates-for-anybody")
def test_templates_of_a_namespace_are_made_and_looked_for_at_a_rate() -> None:
    clock = Clock()
    budget = Budget(clock)
    for take, (a_second, at_once) in (
        (budget.look, limits.LOOKED_AT),
        (budget.make, limits.MADE),
    ):
        for _each in range(at_once):
            take("busy")
        with pytest.raises(OverLimit, match=f"for namespace busy: at most {a_second:.0f} a second"):
            take("busy")
        take("calm")
        clock.now += 1.5 / a_second
        take("busy")
        with pytest.raises(OverLimit) as told:
            take("busy")
        assert told.value.status == 429


def test_one_namespace_gets_no_more_than_half_of_all_requests() -> None:
    assert (2 * limits.LOOKED_AT[0], 2 * limits.LOOKED_AT[1]) == (limits.QPS, limits.BURST)
    assert limits.MADE[1] >= limits.MOST_TEMPLATES


def test_what_is_known_of_namespaces_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_NAMESPACES", 8)
    budget = Budget(Clock())
    for number in range(100):
        budget.look(f"n-{number}")
    assert len(budget._rates) == 8


def test_a_deadline_is_over_when_it_has_passed() -> None:
    clock = Clock()
    deadline = Deadline(9, clock)
    clock.now = 9
    deadline.look()
    clock.now = 9.1
    with pytest.raises(Late):
        deadline.look()
