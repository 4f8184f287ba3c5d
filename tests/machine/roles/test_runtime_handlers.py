# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The handlers of the role container_runtime, run by Ansible, with a stand-in for systemctl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.paths import REPOSITORY

ROLE = REPOSITORY / "roles/container_runtime"
# It restarts nothing before it has been told to forget, and writes down what it was told.
SYSTEMCTL = """\
#!/bin/sh
echo "$*" >> {calls}
case "$1" in
show) printf 'LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\n' ;;
restart) grep -q reset-failed {calls} && [ -z "{broken}" ] ||
    {{ echo "Job for $2 failed: start of the service was attempted too often." >&2; exit 1; }} ;;
esac
"""
PLAY = """\
- name: Handlers
  hosts: localhost
  gather_facts: false
  vars:
    __container_runtime_result: {restart_required: [docker.service], reload_required: []}
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  roles:
    - container_runtime
"""


def run(tmp_path: Path, broken: str = "") -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the role with tasks that only notify; return what Ansible and systemctl were told."""
    role = tmp_path / "roles/container_runtime"
    shutil.copytree(ROLE / "handlers", role / "handlers")
    (role / "tasks").mkdir()
    tasks = yaml.safe_load((ROLE / "tasks/main.yml").read_text())
    (notified,) = (one["notify"] for one in tasks if "notify" in one)
    task = {"name": "Edit", "ansible.builtin.debug": {"msg": "."}, "changed_when": True}
    (role / "tasks/main.yml").write_text(yaml.safe_dump([{**task, "notify": notified}]))
    (tmp_path / "play.yml").write_text(PLAY)
    calls = tmp_path / "calls"
    stub = tmp_path / "bin/systemctl"
    stub.parent.mkdir()
    stub.write_text(SYSTEMCTL.format(calls=calls, broken=broken))
    stub.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{stub.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    words = ["ansible-playbook", "-i", "localhost,", "-c", "local", "play.yml"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    told = [line for line in calls.read_text().splitlines() if line.split()[0] != "show"]
    return done, told


def test_runtime_that_was_started_too_often_is_restarted_all_the_same(tmp_path: Path) -> None:
    done, told = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert told == ["reset-failed docker.service", "restart docker.service"]


def test_runtime_that_does_not_start_fails_the_play(tmp_path: Path) -> None:
    done, told = run(tmp_path, broken="yes")
    assert done.returncode != 0
    assert "attempted too often" in done.stdout
    assert len(told) == 2
