# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One look at a node: what has drifted is called, and what is behind it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

MIG = {
    "version": "v1",
    "mig-configs": {
        "one-each": [
            {"devices": [0], "mig-enabled": False, "mig-devices": {}},
            {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.5gb": 2, "3g.20gb": 1}},
        ]
    },
}
LOOK = "Look at the node and plan what it needs"
CDI, RUNTIME = "Generate the CDI specification", "Enable GPUs (CDI) in the container runtime"
PARTITION, PLUGIN = "Partition the GPUs", "Run the device plugin and label the node"
VALIDATE = "Check the node"
SNAPSHOT = "dpkg-query -W | sha256sum; find /etc /opt /var/lib/gpu-node -type f | sort | sha256sum"

pytestmark = pytest.mark.node


def test_a_fresh_node_shows_the_whole_path_in_one_call(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("plan-fresh", "a100-40", 2, mig_config=MIG)
    before = node.run("sh", "-c", SNAPSHOT)
    checked = node.play(cmdline="--check --diff")
    assert checked.ok, checked.message()
    assert checked.module_calls() == checked.changed() == [LOOK]
    parts = checked.plan()
    assert [name for name, one in parts.items() if one["steps"]] == list(parts)
    assert set(parts) == {"environment", "driver", "runtime", "mig", "cdi", "device_plugin"}
    later = {name: one["later"] for name, one in parts.items() if one["later"]}
    assert (later["mig"], later["cdi"]) == ("NVML answers", "the driver is loaded")
    assert all(one["diff"]["prepared"] for one in parts.values())
    text = checked.runner.stdout.read()
    assert "mig: would partition GPUs as one-each once NVML answers" in text
    assert node.run("sh", "-c", SNAPSHOT) == before


def change_by_hand(node: Node) -> None:
    node.run("systemctl", "stop", "gpu-device-plugin")
    node.run("nvidia-smi", "mig", "-i", "1", "-dci")
    node.run("nvidia-smi", "mig", "-i", "1", "-dgi")


def test_drift_calls_its_part_and_those_behind(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("plan-drift", "a100-40", 2, mig_config=MIG)
    quiet = node.play()
    assert quiet.ok, quiet.message()
    assert (quiet.module_calls(), quiet.changed()) == ([LOOK], [])
    (result,) = [one for _action, task, one in quiet.results() if task == LOOK]
    assert result["validation"]["failed_checks"] == []
    assert result["validation"]["checks"]

    node.run("rm", "/etc/cdi/nvidia.yaml")
    for cmdline in ("--check", "--check --diff"):
        assert names(node.play(cmdline=cmdline)) == ["cdi"]
    mended = node.play()
    assert mended.ok, mended.message()
    assert mended.module_calls() == [LOOK, CDI, VALIDATE]
    assert mended.changed() == [CDI]

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
    assert node.allocatable() == {"gpu": 1, "mig-1g.5gb": 2, "mig-3g.20gb": 1}

    change_by_hand(node)
    killed = node.play(stop_when=at(PARTITION))  # whose module may go on without its playbook
    assert killed.killed
    mended = node.play()
    assert mended.ok, mended.message()
    assert mended.module_calls() in (
        [LOOK, PARTITION, CDI, PLUGIN, VALIDATE],
        [LOOK, PLUGIN, VALIDATE],  # the specification names the same devices again
    )
    assert node.allocatable() == {"gpu": 1, "mig-1g.5gb": 2, "mig-3g.20gb": 1}
    again = node.play(cmdline="--tags mig")
    assert (again.module_calls(), again.changed()) == ([LOOK], [])


def test_a_check_fails_where_a_run_would_be_refused(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("plan-refused", "a100-40", 2, mig_config=MIG)
    wrong = {"container_runtime_mode": "runtime_class"}
    checked = node.play(cmdline="--check", **wrong)
    assert not checked.ok
    assert "/usr/bin/nvidia-container-runtime is not on the node" in checked.message()
    assert checked.module_calls() == checked.changed() == [LOOK]
    refused = node.play(**wrong)
    assert not refused.ok
    assert refused.module_calls() == [LOOK, RUNTIME]
    assert node.play(cmdline="--check --tags driver", **wrong).ok


def at(task: str) -> Callable[[dict[str, Any]], bool]:
    def begins(event: dict[str, Any]) -> bool:
        data = event.get("event_data", {})
        return event["event"] == "runner_on_start" and data.get("task") == task

    return begins


def names(play: Any) -> list[str]:
    assert play.ok, play.message()
    return [name for name, one in play.plan().items() if one["steps"]]
