# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A run in which a node's facts become variables is warned of once, whatever it runs and on how many nodes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ALONE = [
    {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.import_role": {"name": f"gpu.node.{name}"}} for name in ("mig", "cdi")
        ],
    }
]
WARNING = "[WARNING]: INJECT_FACTS_AS_VARS is on"
# What is refused before the first contact with a node, and after the warning.
UNKNOWN = ["--extra-vars", "mig_selectd=x", "--extra-vars", "gpu_nodes_hosts=all"]


def errors_of(folder: Path, playbook: str, **settings: str) -> str:
    """Return what a run on two nodes writes to its standard error."""
    environment = {
        key: value for key, value in os.environ.items() if key != "ANSIBLE_INJECT_FACT_VARS"
    }
    args = ["ansible-playbook", "--inventory", "a,b,", "--connection", "local", *UNKNOWN, playbook]
    process = subprocess.run(
        args,
        cwd=folder,
        env={**environment, **settings},
        check=False,
        capture_output=True,
        text=True,
    )
    assert "mig_selectd is unknown" in process.stdout
    assert process.stdout.count("INJECT_FACTS_AS_VARS") == 0
    return process.stderr


@pytest.mark.parametrize("display", ["default", "gpu.node.progress"])
@pytest.mark.parametrize(
    "playbook", ["play.yml", "gpu.node.gpu_nodes", "gpu.node.validate", "gpu.node.mig"]
)
def test_a_run_with_injected_facts_is_warned_of_once(
    tmp_path: Path, playbook: str, display: str
) -> None:
    (tmp_path / "play.yml").write_text(yaml.safe_dump(ALONE))
    warned = errors_of(tmp_path, playbook, ANSIBLE_STDOUT_CALLBACK=display)
    assert warned.count(WARNING) == 1


@pytest.mark.parametrize(
    "settings", [{"ANSIBLE_INJECT_FACT_VARS": "false"}, {"ANSIBLE_CONFIG": "off.cfg"}]
)
def test_a_run_without_injected_facts_is_not_warned_of(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    (tmp_path / "play.yml").write_text(yaml.safe_dump(ALONE))
    (tmp_path / "off.cfg").write_text("[defaults]\ninject_facts_as_vars = false\n")
    assert WARNING not in errors_of(tmp_path, "play.yml", **settings)
