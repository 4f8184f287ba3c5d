# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Roles in a play of somebody else's: each checks the variables that are its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = (
    "accept",
    "cdi",
    "container_runtime",
    "container_toolkit",
    "dcgm",
    "device_plugin",
    "fractions",
    "host",
    "mig",
    "nvidia_driver",
    "quarantine",
    "repair",
    "settings",
)
LOCAL = ["--inventory", "node,", "--connection", "local", "--check"]
LOCAL += ["--extra-vars", "ansible_python_interpreter=/usr/bin/python3"]


def play(folder: Path, tasks: list[dict[str, Any]], *options: str, **variables: Any) -> str:
    """Run a play in check mode and return what it prints."""
    one = {"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([one]))
    words = ["ansible-playbook", *LOCAL, *options, "play.yml"]
    return subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True).stdout


def test_a_role_alone_refuses_a_misspelt_variable(tmp_path: Path) -> None:
    tasks = [
        {
            "block": [{"ansible.builtin.include_role": {"name": f"gpu.node.{role}"}}],
            "rescue": [
                {"ansible.builtin.debug": {"msg": f"{role} {{{{ ansible_failed_result.msg }}}}"}}
            ],
        }
        for role in ROLES
    ]
    misspelt = {"mig": "mig_selectd", "accept": "accept_tests"}
    wrong = {role: misspelt.get(role, f"{role}_statt") for role in ROLES}
    said = play(tmp_path, tasks, **dict.fromkeys(wrong.values(), "present"))
    for role in ROLES:
        told = f"{role} variables: node: {wrong[role]} is unknown (did you mean {role}_"
        assert told in said, said


@pytest.mark.long
def test_each_variable_that_the_role_reads_is_looked_at_and_no_other(tmp_path: Path) -> None:
    alone = [{"ansible.builtin.import_role": {"name": "gpu.node.device_plugin"}}]
    said = play(
        tmp_path, alone, device_plugin_wait_timeot=3, node_labels_outptu="off", mig_confg={}
    )
    assert "device_plugin_wait_timeot is unknown (did you mean device_plugin_wait_timeout?)" in said
    assert "node_labels_outptu is unknown" in said
    assert "mig_confg" not in json.dumps(said)  # a variable of theirs, for all that this role knows


@pytest.mark.long
def test_validation_refuses_what_the_playbooks_do(tmp_path: Path) -> None:
    said = play(
        tmp_path, [{"ansible.builtin.import_role": {"name": "gpu.node.validate"}}], mig_confg={}
    )
    assert "mig_confg is unknown (did you mean mig_config?)" in said


@pytest.mark.long
def test_a_role_alone_looks_at_the_node_once(tmp_path: Path) -> None:
    said = play(tmp_path, [{"ansible.builtin.import_role": {"name": "gpu.node.cdi"}}])
    assert said.count("TASK [gpu.node.common : Look for NVIDIA GPUs]") == 1
    assert "failed=0" in said


@pytest.mark.long
def test_a_role_alone_is_checked_under_the_tags_of_its_play(tmp_path: Path) -> None:
    tagged = {"ansible.builtin.import_role": {"name": "gpu.node.cdi"}, "tags": "gpus"}
    said = play(tmp_path, [tagged], "--tags", "gpus", cdi_pathh="/etc/cdi/nvidia.yaml")
    assert "cdi_pathh is unknown (did you mean cdi_path?)" in said
    other = play(tmp_path, [tagged], "--tags", "others", cdi_pathh="/etc/cdi/nvidia.yaml")
    assert "unknown" not in other
