# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A variable by its old name, as Ansible reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
NEW = "container_runtime_handler_path"

pytestmark = [
    pytest.mark.skipif(not ANSIBLE.exists(), reason="needs ansible-playbook"),
]


def said(tmp_path: Path, **variables: str) -> str:
    """Return what the role container_runtime says in check mode on a machine without a runtime."""
    role = {"name": "gpu.node.container_runtime"}
    play = {"hosts": "localhost", "gather_facts": False, "connection": "local"}
    play |= {"tasks": [{"ansible.builtin.include_role": role}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    wanted = {"ansible_python_interpreter": sys.executable, **variables}
    (tmp_path / "vars.yml").write_text(json.dumps(wanted))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": f"{REPOSITORY}/.cache/collections"}
    environment |= {"ANSIBLE_HOME": str(tmp_path / "home"), "ANSIBLE_DEPRECATION_WARNINGS": "true"}
    command = [ANSIBLE, "--check", "-i", "localhost,", "-e", f"@{tmp_path}/vars.yml"]
    done = subprocess.run(
        [*command, tmp_path / "play.yml"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    return " ".join((done.stdout + done.stderr).split())


def test_old_name_of_a_variable_is_read_and_named(tmp_path: Path) -> None:
    found = said(tmp_path, container_runtime_program="nowhere")
    assert f"The variable container_runtime_program is called {NEW} now" in found
    assert "handler_path (container_runtime_handler_path): 'nowhere' is not valid" in found


@pytest.mark.long
def test_new_name_says_nothing_of_it(tmp_path: Path) -> None:
    found = said(tmp_path, **{NEW: "nowhere"})
    assert "DEPRECATION" not in found
    assert "handler_path (container_runtime_handler_path): 'nowhere' is not valid" in found
