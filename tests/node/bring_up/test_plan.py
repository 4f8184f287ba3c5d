# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One look at a node: what has drifted is called, and what is behind it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import KIND_OF_NODE

LOOK = "Look at the node and plan what it needs"
CDI = "Generate the CDI specification"
PARTITION, PLUGIN = "Partition the GPUs", "Run the device plugin and label the node"
VALIDATE = "Check the node"

IN_PARTS = {"gpu": 1, "mig-1g.5gb": 2}

pytestmark = [pytest.mark.node, pytest.mark.long]


def change_by_hand(node: Node) -> None:
    node.run("systemctl", "stop", "gpu-device-plugin")
    node.run("nvidia-smi", "mig", "-i", "1", "-dci")
    node.run("nvidia-smi", "mig", "-i", "1", "-dgi")


def test_drift_calls_its_part_and_those_behind(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("plan-drift", "a100-40", 2, **KIND_OF_NODE)
    # Of a layout that somebody has changed the specification and the daemon have to know too.
    change_by_hand(node)
    elsewhere = node.play(cmdline="--tags runtime")
    assert elsewhere.ok, elsewhere.message()
    assert elsewhere.module_calls() == [LOOK]
    skipped = node.play(cmdline="--skip-tags mig,cdi,device_plugin,labels")
    assert skipped.module_calls() == [LOOK]
    mended = node.play()
    assert mended.ok, mended.message()
    assert mended.module_calls() == [LOOK, PARTITION, CDI, PLUGIN, VALIDATE]
    assert node.allocatable() == IN_PARTS

    change_by_hand(node)
    assert node.play(cut_off_at=PARTITION).killed
    mended = node.play()
    assert mended.ok, mended.message()
    assert mended.module_calls() == [LOOK, PARTITION, CDI, PLUGIN, VALIDATE]
    assert node.allocatable() == IN_PARTS
    again = node.play(cmdline="--tags mig")
    assert (again.module_calls(), again.changed()) == ([LOOK], [])


def test_neither_a_check_nor_a_run_begins_where_a_part_would_be_refused(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("plan-refused", "a100-40", 2, **KIND_OF_NODE)
    wrong = {"container_runtime_mode": "runtime_class"}
    checked = node.play(cmdline="--check", **wrong)
    assert not checked.ok
    assert "/usr/bin/nvidia-container-runtime is not on the node" in checked.message()
    assert checked.module_calls() == checked.changed() == [LOOK]
    refused = node.play(**wrong)
    assert not refused.ok
    assert (refused.module_calls(), refused.changed()) == ([LOOK], [])
    assert node.play(cmdline="--check --tags driver", **wrong).ok
