# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The playbook report where nodes can't be reached: the report is written all the same, and tells of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
AWAY = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_become": False}


def run(folder: Path, hosts: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook from a folder, for these hosts."""
    (folder / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts}}))
    command = ["ansible-playbook", "-i", "hosts.yml", "gpu.node.report", *words]
    return subprocess.run(
        [*command, "-e", "report_json_path=report.json"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PWD": str(folder)},
    )


def states(folder: Path) -> dict[str, str]:
    found = json.loads((folder / "report.json").read_text())["nodes"]
    return {one["name"]: one["state"] for one in found}


def test_nodes_that_can_not_be_reached_are_in_the_report(tmp_path: Path) -> None:
    done = run(tmp_path, {"<b>away": AWAY, "here": HERE})
    assert done.returncode == 2, done.stdout
    assert "report: <b>away: " in done.stdout
    assert states(tmp_path) == {"<b>away": "unreachable", "here": "looked"}
    files = f"{tmp_path}/gpu-report.html, {tmp_path}/report.json"
    assert f"{files}: 2 nodes, 0 drifted, 1 without data" in done.stdout
    assert "changed=0" in done.stdout
    assert "changed=1" not in done.stdout
    assert "\\u003cb\\u003eaway" in (tmp_path / "gpu-report.html").read_text()


@pytest.mark.long
def test_there_is_a_report_where_nobody_can_be_reached(tmp_path: Path) -> None:
    done = run(tmp_path, {"away": AWAY}, "-e", "report_html_path=")
    assert done.returncode == 2, done.stdout
    assert states(tmp_path) == {"away": "unreachable"}
    assert not (tmp_path / "gpu-report.html").exists()


@pytest.mark.long
def test_a_machine_without_a_gpu_is_no_failure(tmp_path: Path) -> None:
    done = run(tmp_path, {"here": HERE}, "-e", "report_fail_on_drift=true", "--check")
    assert done.returncode == 0, done.stdout
    assert states(tmp_path) == {"here": "looked"}


@pytest.mark.long
def test_a_misspelt_variable_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, {"here": HERE}, "-e", "report_fail_on_drif=true")
    assert done.returncode == 2
    assert "report_fail_on_drif is unknown (did you mean report_fail_on_drift?)" in done.stdout
