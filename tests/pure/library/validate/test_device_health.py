# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that nobody is given: those that are broken, and those that wait for who has them."""

from __future__ import annotations

import typing as t

import pytest

from tests.fakes.library.nodes_to_validate import failures, node, resource, told


def test_only_the_first_of_many_unhealthy_devices_are_named() -> None:
    devices = {f"GPU-{number}": "Unhealthy" for number in range(9)}
    said = {**resource(devices=devices), "allocatable": {}}
    (text,) = failures(node(said)).values()
    assert "nvidia.com/gpu GPU-3; and 5 more)" in text
    assert "GPU-4" not in text


@pytest.mark.parametrize(
    "why",
    [
        {"devices": [{"uuid": "GPU-1", "reason": "held"}, {"uuid": "GPU-2", "reason": ""}]},
        {"mps": {"GPU-1": {"problem": "its client has not ended", "waits_for_clients": True}}},
    ],
)
def test_a_device_that_waits_for_who_has_it_is_a_warning(why: dict[str, t.Any]) -> None:
    devices, shared = {"GPU-1": "Unhealthy", "GPU-2": "Healthy"}, {"GPU-1": 4}
    problems = {"GPU-1": "it waits for pod team/trainer"}
    said = {**resource(devices=devices, problems=problems, shares=shared), **why}
    assert failures(node(said)) == {}
    assert told(node(said), "warning")["health"] == (
        "devices are given to nobody until who has them has ended (nvidia.com/gpu GPU-1: it waits for pod "
        "team/trainer) -> drain the node, or wait for these pods to end"
    )
    sick = resource(devices=dict.fromkeys(devices, "Unhealthy"), problems=problems, shares=shared)
    assert "GPU-1" not in failures(node({**sick, **why}))["health"]
