# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where a play shows the password of a package index: its output, as much as Ansible can say, and its log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.library.hostile_index import REPOSITORY, Index

TOKEN = "S3cr3tT0ken"
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"


@pytest.mark.attack("index-password-shown")
@pytest.mark.skipif(not ANSIBLE.exists(), reason="needs ansible-playbook")
def test_token_of_an_index_is_in_no_result_error_or_log(tmp_path: Path) -> None:
    log = tmp_path / "ansible.log"
    with Index({}) as index:  # where nothing can be installed from
        args = {
            "state": "installed",
            "package": str(REPOSITORY / "files/gpu_plugin"),
            "prefix": str(tmp_path / "prefix"),
            "index_url": f"http://ci:{TOKEN}@{index.host}/simple",
        }
        task = {"gpu.node.device_plugin": args, "register": "__result"}
        shown = {"ansible.builtin.debug": {"var": "__result"}, "failed_when": True}
        block = {"block": [task], "rescue": [shown]}
        play = {"hosts": "localhost", "gather_facts": False, "tasks": [block]}
        play["vars"] = {"ansible_python_interpreter": sys.executable}
        path = tmp_path / "play.yml"
        path.write_text(json.dumps([{**play, "connection": "local"}]))
        settings = {
            "ANSIBLE_LOG_PATH": str(log),
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache/collections"),
            "ANSIBLE_HOME": str(tmp_path / "home"),
        }
        done = subprocess.run(
            [ANSIBLE, "-vvvv", "-i", "localhost,", path],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **settings},
        )
    said = done.stdout + done.stderr
    assert "No matching distribution found" in said
    assert "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" in log.read_text()
    assert TOKEN not in said
    assert TOKEN not in log.read_text()
