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
    evidence = {"repair_evidence_folder": str(tmp_path / "evidence"), "repair_bug_report": "never"}
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
