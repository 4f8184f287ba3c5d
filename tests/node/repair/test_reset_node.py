# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU of a node in service that asks for a reset gets it, by genuine systemd and nvidia-smi; a run may be killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import Node, Play

from tests.node.holding import hold
from tests.support.waiting import eventually

PLAYBOOK = str(Path(__file__).parent / "reset.yml")
CONTROL = "/opt/nvsim/bin/nvsimctl"
RECORD = "/var/lib/gpu-node/stopped-services.json"
PLUGIN = "gpu-device-plugin.service"
MONITOR = "[Service]\nExecStart=/usr/bin/sleep infinity\n"
# Goes before the genuine one: the nearest Python above it is the module.
KILLER = """\
#!/bin/sh
test "$1" = --gpu-reset || exec /usr/bin/nvidia-smi "$@"
pid=$PPID
until grep -q ^python /proc/$pid/comm; do pid=$(awk '/^PPid/ {print $2}' /proc/$pid/status); done
kill -9 $pid
exit 7
"""

pytestmark = [pytest.mark.node, pytest.mark.long]


def gpu(node: Node, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.run(CONTROL, "status"))["gpus"][index]
    return found


def answer(run: Play) -> dict[str, Any]:
    found = [result for action, _task, result in run.results() if "gpu_reset" in action]
    assert found, run.message()
    return found[-1]


def active(node: Node, *units: str) -> list[str]:
    return [node.run("systemctl", "is-active", one, check=False).strip() for one in units]


def started(node: Node, unit: str) -> str:
    return node.run("systemctl", "show", unit, "--property=ActiveEnterTimestampMonotonic")


def test_gpu_of_a_node_in_service_is_reset_and_a_killed_run_is_finished(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("reset", "h100-80", 2)
    node.run("sh", "-c", f"cat > /etc/systemd/system/monitor.service <<'END'\n{MONITOR}END")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", "monitor")
    node.run("nvidia-smi", "-pm", "1", "-i", "0")
    node.run(CONTROL, "recovery", "0", "1")
    hold(node, "job", 1)  # on the other GPU, which nobody touches
    job = started(node, "job.service")

    checked = answer(node.play(PLAYBOOK, cmdline="--check", gpus=["all"]))
    assert checked["steps"][0]["summary"].startswith(f"stop monitor.service, {PLUGIN}, ")
    assert checked["blocked_by"] == []
    assert gpu(node)["recovery"] == 1

    hold(node, "user", 0)
    refused = node.play(PLAYBOOK, gpus=["all"])
    assert "(python3, user.service)" in refused.message()
    node.run("systemctl", "stop", "user")

    node.run("sh", "-c", f"cat > /usr/local/bin/nvidia-smi <<'END'\n{KILLER}END")
    node.run("chmod", "755", "/usr/local/bin/nvidia-smi")
    assert not node.play(PLAYBOOK, gpus=["all"]).ok
    assert active(node, "monitor", PLUGIN) == ["inactive", "inactive"]
    assert (gpu(node)["recovery"], gpu(node)["persistence"]) == (1, 0)
    assert PLUGIN in node.run("cat", RECORD)
    node.run("rm", "/usr/local/bin/nvidia-smi")

    done = node.play(PLAYBOOK, gpus=["all"])
    assert done.ok, done.message()
    assert answer(done)["reset"] == [gpu(node)["uuid"]]
    assert (gpu(node)["recovery"], gpu(node)["persistence"]) == (0, 1)
    assert active(node, "monitor", PLUGIN) == ["active", "active"]
    assert node.run("ls", RECORD, check=False) == ""
    assert started(node, "job.service") == job
    eventually(node.allocatable, {"gpu": 2})

    plugin = started(node, PLUGIN)
    again = node.play(PLAYBOOK, gpus=["all"])
    assert (again.ok, again.changed()) == (True, [])
    assert started(node, PLUGIN) == plugin


def test_gpu_that_dies_in_its_reset_leaves_the_node_in_service(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("reset-dies", "h100-80", 2)
    node.run("sh", "-c", f"cat > /etc/systemd/system/monitor.service <<'END'\n{MONITOR}END")
    node.run("systemctl", "daemon-reload")
    node.run(CONTROL, "recovery", "0", "1")
    node.run(CONTROL, "die", "0", "--at", "reset")
    failed = node.play(PLAYBOOK, gpus=["0"])
    assert "did not come back from the reset" in failed.message()
    assert answer(failed)["not_reset"] == [gpu(node)["uuid"]]
    assert active(node, PLUGIN) == ["active"]
    eventually(node.allocatable, {"gpu": 1})
