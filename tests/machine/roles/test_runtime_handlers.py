# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The handlers of the role container_runtime, run by Ansible, with a module that writes down its arguments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._generated.container_runtime import SPEC

from tests.runner.tiers import long_but_first
from tests.support.paths import REPOSITORY

ROLE = REPOSITORY / "roles/container_runtime"
MODULE = "gpu.node.container_runtime"
SPY = """\
import json
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={spec!r}, supports_check_mode=True)
with open({calls!r}, "a") as stream:
    print(json.dumps(module.params), file=stream)
module.exit_json(changed=True)
"""
PLAY = """\
- name: Handlers
  hosts: localhost
  gather_facts: false
  vars:
    __container_runtime_result: {result}
    ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
  roles:
    - container_runtime
"""


def run(tmp_path: Path, **result: str | list[str]) -> list[dict[str, Any]]:
    """Run the role with tasks that only notify; return the arguments of each call of the module."""
    role = tmp_path / "roles/container_runtime"
    for folder in ("handlers", "defaults"):
        shutil.copytree(ROLE / folder, role / folder)
    (role / "tasks").mkdir()
    tasks = yaml.safe_load((ROLE / "tasks/main.yml").read_text())
    (notified,) = (task["notify"] for task in tasks if "notify" in task)
    task = {"name": "Edit", "ansible.builtin.debug": {"msg": "."}, "changed_when": True}
    (role / "tasks/main.yml").write_text(yaml.safe_dump([{**task, "notify": notified}]))
    handlers = role / "handlers/main.yml"
    handlers.write_text(handlers.read_text().replace(f"{MODULE}:", "spy:"))
    calls = tmp_path / "calls"
    calls.touch()
    (tmp_path / "library").mkdir()
    spec = SPEC["argument_spec"]
    (tmp_path / "library/spy.py").write_text(SPY.format(spec=spec, calls=str(calls)))
    (tmp_path / "play.yml").write_text(PLAY.format(result=json.dumps(result)))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    command = ["ansible-playbook", "-i", "localhost,", "-c", "local", "play.yml"]
    process = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return [json.loads(line) for line in calls.read_text().splitlines()]


@pytest.mark.parametrize(
    ("state", "restarts", "reloads"),
    long_but_first(
        [
            ("present", ["crio.service"], ["docker.service"]),
            ("present", ["docker.service"], []),
            ("absent", [], ["docker.service"]),
        ]
    ),
)
def test_units_that_are_due_are_restarted_and_reloaded_by_the_module(
    tmp_path: Path, state: str, restarts: list[str], reloads: list[str]
) -> None:
    calls = run(tmp_path, state=state, restart_required=restarts, reload_required=reloads)
    assert [call["restart_now"] for call in calls] == [*filter(None, [restarts, reloads])]
    assert {call["state"] for call in calls} == {state}
    assert {call["restart"] for call in calls} == {"when_idle"}
