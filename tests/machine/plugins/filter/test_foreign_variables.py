# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Variables of other tools that begin as ours do, in the play's first task as Ansible runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import REPOSITORY

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
# Of NVIDIA's role nvidia_driver, which many inventories have.
OTHERS = {"nvidia_driver_package_version": "580.95.05", "nvidia_driver_skip_reboot": True}

pytestmark = [
    pytest.mark.skipif(not ANSIBLE.exists(), reason="needs ansible-playbook"),
]


def check(tmp_path: Path, **variables: Any) -> tuple[int, str]:
    """Return status and output of the task that checks all variables."""
    role = {"name": "gpu.node.common", "tasks_from": "check_variables"}
    play = {"hosts": "localhost", "gather_facts": False, "connection": "local"}
    play |= {"tasks": [{"ansible.builtin.include_role": role}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    (tmp_path / "vars.yml").write_text(json.dumps(variables))
    done = subprocess.run(
        [ANSIBLE, "-i", "localhost,", "-e", f"@{tmp_path}/vars.yml", tmp_path / "play.yml"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache/collections")},
    )
    return done.returncode, done.stdout + done.stderr


def test_variables_of_another_tool_can_be_named(tmp_path: Path) -> None:
    status, said = check(tmp_path, **OTHERS)
    assert status != 0
    assert "nvidia_driver_package_version is unknown" in said
    assert "gpu_nodes_foreign_variables" in said
    names = ["nvidia_driver_package_*", "nvidia_driver_skip_reboot"]
    status, said = check(tmp_path, **OTHERS, gpu_nodes_foreign_variables=names)
    assert status == 0, said


@pytest.mark.long
def test_misspelt_ones_are_found_all_the_same(tmp_path: Path) -> None:
    wrong = {"nvidia_driver_verson": "580", "gpu_nodes_foreign_variables": list(OTHERS)}
    status, said = check(tmp_path, **OTHERS, **wrong)
    assert status != 0
    assert "nvidia_driver_verson is unknown (did you mean nvidia_driver_version?)" in said
    assert "nvidia_driver_skip_reboot is unknown" not in said


@pytest.mark.long
def test_list_that_is_none_is_named(tmp_path: Path) -> None:
    status, said = check(tmp_path, gpu_nodes_foreign_variables={"nvidia_driver_skip_reboot": True})
    assert status != 0
    assert "argument 'gpu_nodes_foreign_variables' is of type dict" in said
