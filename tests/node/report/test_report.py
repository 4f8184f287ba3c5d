# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The playbook report on a node in service: one page and one JSON file of what is there, and nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import KIND_OF_NODE
from tests.support.waiting import eventually

REPORT = "gpu.node.report"
pytestmark = pytest.mark.node


def test_a_report_on_a_node_with_mig_pods_and_a_fault(
    brought_up: Callable[..., Node], tmp_path: Path
) -> None:
    node = brought_up("report", "a100-40", 2, **KIND_OF_NODE)
    node.run("standin-kubelet", "admit", "train-0", "--request=nvidia.com/mig-1g.5gb=1")
    node.run("/opt/nvsim/bin/nvsimctl", "xid", "0", "79")
    eventually(lambda: [one["index"] for one in node.status()["health"]], ["0"])
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    files = {"report_html_path": str(page), "report_json_path": str(data)}

    good = node.play(REPORT, **files, report_fail_on_drift=True)
    assert good.ok, good.message()
    assert good.changed() == []
    report = json.loads(data.read_text())
    (found,) = report["nodes"]
    assert (found["name"], found["state"], found["drift"]) == (node.name, "looked", [])
    assert [(gpu["index"], gpu["mig"], gpu["in_use"]) for gpu in found["gpus"]] == [
        (0, False, False),
        (1, True, True),
    ]
    users = [one for each in found["gpus"][1]["instances"] for one in each["users"]]
    assert [(one["kind"], one["name"]) for one in users] == [("pod", "default/train-0")]
    assert found["gpus"][0]["fault"].startswith("XID 79")
    assert [one["xid"] for one in found["faults"]] == [79]
    assert found["driver"]["end_of_support"], "the table knows the branch of trixie's driver"
    assert found["labels"]["nvidia.com/gpu.count"] == "2"
    totals = report["totals"]
    assert (totals["nodes"], totals["gpus"], totals["gpus_in_use"]) == (1, 2, 1)
    assert (totals["drifted"], totals["unhealthy"]) == (0, 1)
    assert node.name in page.read_text()

    node.run("sed", "-i", "s/enable_cdi = true/enable_cdi = false/", "/etc/containerd/config.toml")
    drifted = node.play(REPORT, **files)
    assert drifted.ok, drifted.message()
    (found,) = json.loads(data.read_text())["nodes"]
    assert [one["part"] for one in found["drift"]] == ["runtime"]
    failed = node.play(REPORT, **files, report_fail_on_drift=True)
    assert not failed.ok
    assert f"report: {node.name} is not as declared" in failed.message()
    assert "runtime: " in failed.message()
    assert json.loads(data.read_text())["totals"]["drifted"] == 1

    wrong = node.play(REPORT, **files, mig_selected="hafl")
    assert not wrong.ok
    (found,) = json.loads(data.read_text())["nodes"]
    assert found["state"] == "failed", wrong.message()
    assert "mig_selected" in found["problem"]
    assert len(found["gpus"]) == 2, "its GPUs are shown all the same"
