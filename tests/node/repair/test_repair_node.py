# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node in service whose GPUs get faults: one is reset, proved and given back, one waits for a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.support.waiting import eventually

REPAIR = "gpu.node.repair"
CTL = "/opt/nvsim/bin/nvsimctl"
CASES, QUARANTINE = "/var/lib/gpu-node/repair.json", "/var/lib/gpu-node/quarantine.json"

pytestmark = [pytest.mark.node, pytest.mark.long]


def cases(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.run("cat", CASES))["gpus"]
    return found


def set_aside(node: Node) -> list[str]:
    text = node.run("sh", "-c", f"cat {QUARANTINE} 2>/dev/null || echo '{{\"gpus\": {{}}}}'")
    return list(json.loads(text)["gpus"])


def test_a_gpu_comes_back_and_a_lost_one_stays_set_aside(
    brought_up: Callable[..., Node], tmp_path: Any
) -> None:
    evidence: dict[str, Any] = {"repair_evidence_folder": str(tmp_path / "evidence")}
    evidence |= {"repair_bug_report": "never", "accept_duration": 1}
    node = brought_up("repair", "h100-80", 2)
    first, second = (
        one.split("UUID: ")[1].rstrip(")") for one in node.run("nvidia-smi", "-L").splitlines()
    )
    node.run(CTL, "xid", "0", "95")
    node.run(CTL, "lose", "0", "--how", "reset_required")
    checked = node.play(REPAIR, cmdline="--check", **evidence)
    assert checked.ok, checked.message()
    assert set_aside(node) == []

    repaired = node.play(REPAIR, **evidence)
    assert repaired.ok, repaired.message()
    assert (cases(node)[first]["stage"], set_aside(node)) == ("released", [])
    assert [one["result"] for one in cases(node)[first]["attempts"]] == ["done"]
    assert list((tmp_path / "evidence").rglob(f"*{first}*.tar.gz"))
    eventually(lambda: node.allocatable().get("gpu"), 2)

    again = node.play(REPAIR, **evidence)
    assert again.ok, again.message()
    assert again.changed() == []

    # XID 79: no reset can help, and nobody has allowed a reboot.
    node.run(CTL, "lose", "1")
    for _run in range(2):
        waits = node.play(REPAIR, **evidence)
        assert waits.ok, waits.message()
        assert (cases(node)[second]["verdict"], cases(node)[second]["attempts"]) == ("reboot", [])
        assert set_aside(node) == [second]
    eventually(lambda: node.allocatable().get("gpu"), 1)
    assert "1 of 2 GPUs on the PCI bus answer" in node.play("gpu.node.validate").message()

    # Somebody reboots it.
    node.reboot()
    back = node.play(REPAIR, **evidence)
    assert back.ok, back.message()
    assert (cases(node)[second]["stage"], set_aside(node)) == ("released", [])
    eventually(lambda: node.allocatable().get("gpu"), 2)


def test_a_gpu_is_proved_without_another_one_of_its_node_that_is_gone(
    brought_up: Callable[..., Node], tmp_path: Any
) -> None:
    evidence = {"repair_evidence_folder": str(tmp_path / "evidence"), "repair_bug_report": "never"}
    node = brought_up("gone", "h100-80", 2)
    first, second = (
        one.split("UUID: ")[1].rstrip(")") for one in node.run("nvidia-smi", "-L").splitlines()
    )
    node.run(CTL, "die", "1")
    node.run(CTL, "recovery", "0", "1")
    waits = node.play(REPAIR, **evidence)
    assert waits.ok, waits.message()
    assert set_aside(node) == [first, second]
    assert [cases(node)[one]["attempts"] for one in (first, second)] == [[], []]

    # No boot finds it any more.
    node.reboot()
    node.run(CTL, "recovery", "0", "1")
    repaired = node.play(REPAIR, **evidence)
    assert repaired.ok, repaired.message()
    assert (cases(node)[first]["stage"], set_aside(node)) == ("released", [second])
    assert [one["result"] for one in cases(node)[first]["attempts"]] == ["done"]
    eventually(lambda: node.allocatable().get("gpu"), 1)
    assert "is not on its PCI bus any more" in node.play("gpu.node.validate").message()


# A node that is rebooted, and of which nothing is heard any more.
AWAY = """\
#!/bin/sh
systemctl stop ssh.socket ssh.service
for one in /proc/[0-9]*; do
  case $(cat $one/comm) in sshd*) kill -9 ${one#/proc/} ;; esac
done
"""
GONE = """\
mv /usr/sbin/shutdown /usr/sbin/shutdown.kept
printf %s "$1" >/usr/sbin/shutdown
chmod 755 /usr/sbin/shutdown
"""
BACK = "mv /usr/sbin/shutdown.kept /usr/sbin/shutdown"


def test_a_node_that_does_not_come_back_from_its_reboot_is_finished_by_the_next_run(
    brought_up: Callable[..., Node], tmp_path: Any
) -> None:
    given = {
        "repair_evidence_folder": str(tmp_path / "evidence"),
        "repair_bug_report": "never",
        "repair_reboot": "when_needed",
    }
    node = brought_up("away", "h100-80", 2)
    second = node.run("nvidia-smi", "-L").splitlines()[1].split("UUID: ")[1].rstrip(")")
    node.run(CTL, "lose", "1")
    node.run("sh", "-ec", GONE, "sh", AWAY)
    away = node.play(REPAIR, gpu_nodes_reboot_timeout=10, **given)
    assert not away.ok
    assert "Run gpu.node.repair again when the cause is fixed" in away.message()
    case = cases(node)[second]
    assert (case["stage"], set_aside(node)) == ("reset", [second])
    assert [(one["action"], one["result"]) for one in case["attempts"]] == [("reboot", "")]
    assert case["evidence"]

    node.run("sh", "-ec", BACK)
    node.reboot()
    back = node.play(REPAIR, **given)
    assert back.ok, back.message()
    case = cases(node)[second]
    assert (case["stage"], set_aside(node)) == ("released", [])
    assert len(case["attempts"]) == 1
    assert json.loads(node.run("cat", CASES))["lease"] is None
    assert (
        node.run("sh", "-c", "test -e /var/lib/gpu-node/in-service || echo gone").strip() == "gone"
    )
    eventually(lambda: node.allocatable().get("gpu"), 2)
