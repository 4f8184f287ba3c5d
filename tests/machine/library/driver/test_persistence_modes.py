# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Persistence mode of a node's GPUs, by the driver's whole capability."""

from __future__ import annotations

from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.persistence import DROP_IN
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.packages.debian import GPUS, Debian, capability, converge, converged


def steps(node: Debian, **params: object) -> list[str]:
    """Return what a check would do."""
    one = capability(node, check_mode=True, **params)
    return [step.summary for step in one.plan(one.observe()).steps]


def test_a_mode_that_was_turned_off_is_turned_on_again() -> None:
    node = converged()
    assert steps(node) == []
    node.modes[GPUS[1]] = False
    assert steps(node) == [f"turn persistence mode on of GPU 1 ({GPUS[1]})"]
    assert steps(node, persistence=False) == []
    converge(node)
    assert node.modes == dict.fromkeys(GPUS, True)
    assert steps(node) == []


def test_a_first_run_ends_with_the_modes_on_whatever_the_unit_starts() -> None:
    node = converged()
    node.enabled, node.starts_with = False, "--no-persistence-mode"
    node.modes = dict.fromkeys(GPUS, False)
    converge(node)
    assert node.modes == dict.fromkeys(GPUS, True)
    assert "-pm 1" in node.files[DROP_IN]
    assert steps(node) == []


def test_a_drop_in_goes_with_the_driver_and_where_the_mode_is_not_wanted() -> None:
    for params in ({"persistence": False}, {"state": "absent"}):
        node = converged()
        node.starts_with = "--no-persistence-mode"
        converge(node)
        assert DROP_IN in node.files
        converge(node, **params)
        assert DROP_IN not in node.files
        assert steps(node, **params) == []


def test_a_driver_that_can_not_be_asked_is_a_warning() -> None:
    node = converged()
    told = "whether persistence mode is on is not known: nvidia-smi "
    for answer, words in (
        ("No devices were found\n", "has answered 'No devices were found'"),
        ("", "has answered ''"),
        (Completed(6, "", "Unable to determine the device handle"), "ended with status 6: Unable"),
    ):
        node.commands[("nvidia-smi",)] = answer
        one = capability(node, check_mode=True)
        (warning,) = one.plan(one.observe()).warnings
        assert told + words in warning
