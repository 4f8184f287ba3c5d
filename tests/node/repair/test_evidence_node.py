# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Evidence of a fault on a node, with its own systemd, journal and packages, and a report that shows the repair."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    FAILED,
    PATH,
    RepairCase,
    RepairCases,
    dump_cases,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action, Attempt
from gpunode_tool.testing import Node, Play

DRIVER = str(Path(__file__).parents[1] / "driver/driver.yml")
PLAYBOOK = str(Path(__file__).parent / "evidence.yml")
pytestmark = pytest.mark.node


def evidence(node: Node, folder: Path, gpu: str, stage: str) -> tuple[Play, dict[str, bytes]]:
    """Return a run, and the files of the archive that it has fetched."""
    run = node.play(PLAYBOOK, folder=str(folder), gpus=[gpu], stage=stage)
    assert run.ok, run.message()
    (path,) = folder.rglob(f"*.{stage}.*.tar.gz")
    with tarfile.open(path) as tar:
        members = {one.name.partition("/")[2]: tar.extractfile(one) for one in tar}
        return run, {name: file.read() for name, file in members.items() if file}


def test_evidence_is_fetched_from_a_node_and_the_report_shows_the_repair(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    node = make_node("evidence", "h100-80", 2, gpu_nodes_components=["driver"])
    driver = node.play(DRIVER)
    assert driver.ok, driver.message()
    uuid = node.run("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader").split()[0]
    first, files = evidence(node, tmp_path / "first", uuid, "before")
    told = json.loads(files["manifest.json"])
    (gpu,) = told["gpus"]
    assert (gpu["uuid"], gpu["answers"]) == (uuid, True)
    assert told["driver"]["version"] in files["nvidia-smi.txt"].decode()
    there = [one["name"] for one in told["contents"]] + [one["part"] for one in told["missing"]]
    assert {"kernel.log", "nvidia-bug-report-safe.log.gz", "dcgm-diag.json"} <= set(there)
    mode = node.run("sh", "-c", "stat -c '%a %U' /var/lib/gpu-node/evidence/*.tar.gz")
    assert mode.strip() == "600 root"
    assert len(first.changed()) == 2
    again, _files = evidence(node, tmp_path / "first", uuid, "before")
    assert again.changed() == []

    tried = (Attempt(Action.RESET, 1795320600.0, "the GPU does not answer"),)
    case = RepairCase(gpu["facts"]["serial"], gpu["pci"], Action.REPLACE, ("XID 79",), 1795320000.0)
    text = dump_cases(RepairCases(None, {uuid: case._replace(stage=FAILED, attempts=tried)}))
    node.run("sh", "-c", f"umask 077; printf %s '{text}' > {PATH}")
    _run, files = evidence(node, tmp_path / "rma", uuid, "rma")
    assert [name for name in files if name.startswith("earlier/")]
    assert "the GPU does not answer" in files["summary.txt"].decode()

    data = tmp_path / "report.json"
    report = node.play("gpu.node.report", report_html_path="", report_json_path=str(data))
    assert report.ok, report.message()
    assert report.changed() == []
    found = json.loads(data.read_text())
    (shown,) = found["nodes"][0]["cases"]
    assert (shown["gpu"], shown["verdict"], shown["open"]) == (uuid, "replace", True)
    assert "gpu.node.gpu_evidence" in shown["next"]
    assert [one["cases"] for one in found["repairs"]] == [1]
