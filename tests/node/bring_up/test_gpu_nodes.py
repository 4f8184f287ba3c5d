# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The playbook on simulated nodes: what a second run does, and one after another that was killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import (
    KIND_OF_NODE,
    MIG,
    Pods,
    allow_pods,
    check_isolation,
)

LOOK = "Look at the node and plan what it needs"
CDI, VALIDATE = "Generate the CDI specification", "Check the node"
MODULE_CALL_BUDGET = 2  # as README has it
IN_PARTS = {"gpu": 1, "mig-1g.5gb": 2}

pytestmark = pytest.mark.node


def test_a_node_in_service_stays_as_it_is_and_its_pods_see_what_they_name(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("converged", "a100-40", 2, **KIND_OF_NODE)
    assert node.allocatable() == IN_PARTS
    allow_pods(node)
    quiet = node.play()
    assert quiet.ok, quiet.message()
    assert (quiet.module_calls(), quiet.changed()) == ([LOOK], [])
    (result,) = [one for _action, task, one in quiet.results() if task == LOOK]
    assert result["validation"]["failed_checks"] == []
    assert result["validation"]["checks"]
    check_isolation(Pods(node), node)

    # What has drifted is named, mended and checked, and nothing else is called.
    node.run("rm", "/etc/cdi/nvidia.yaml")
    checked = node.play(cmdline="--check --diff")
    assert checked.ok, checked.message()
    assert [name for name, one in checked.plan().items() if one["steps"]] == ["cdi"]
    mended = node.play()
    assert mended.ok, mended.message()
    assert mended.module_calls() == [LOOK, CDI, VALIDATE]
    assert mended.changed() == [CDI]


@pytest.mark.long
def test_interrupted_at_every_task_a_repeated_run_ends_converged(
    make_node: Callable[..., Node],
) -> None:
    """Kill ansible where each task would begin, in turn; the last run must find its way from there."""
    node = make_node("killed", "a100-40", 2, mig_config=MIG)
    while node.play(cut_off_at="").killed:
        assert len(node.cut_off()) < 40
    last = node.play()
    assert last.ok, last.message()
    assert len(node.cut_off()) >= 8
    assert node.allocatable() == IN_PARTS

    again = node.play()
    assert again.ok, again.message()
    assert again.changed() == []
    calls = again.module_calls()
    assert len(calls) <= MODULE_CALL_BUDGET, calls

    silent = node.play(cmdline="--check --diff")
    assert silent.ok, silent.message()
    assert silent.changed() == []


@pytest.mark.long
def test_node_without_gpu_is_skipped_or_refused(make_node: Callable[..., Node]) -> None:
    node = make_node("bare", "none", 0)
    skipped = node.play()
    assert skipped.ok, skipped.message()
    assert "has no NVIDIA GPU" in skipped.message()
    assert skipped.changed() == []
    refused = node.play(gpu_nodes_require_gpu=True)
    assert not refused.ok
    assert "gpu_nodes_require_gpu" in refused.message()
