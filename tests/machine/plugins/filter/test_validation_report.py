# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The role's report, through Ansible: a file for all nodes, on the controller, also where a node fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpu.node.plugins.filter.validation_report import validation_report

GOOD = {"name": "driver", "state": "passed", "cause": "", "next_step": "", "holds": True}
BAD = {**GOOD, "state": "failed", "cause": "\x1b[2J <gone>", "next_step": "look", "holds": False}
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact:
        __validate_result: "{{ given }}"
      when: given is defined
    - ansible.builtin.copy:
        content: "{{ ansible_play_hosts_all | gpu.node.validation_report(hostvars, '__validate_result', form) }}"
        dest: "{{ folder }}/report"
        mode: "0644"
      delegate_to: localhost
      run_once: true
"""


def run(folder: Path, form: str) -> str:
    answers = {"a": [GOOD], "b": [GOOD, BAD]}
    hosts = {
        name: {"given": {"checks": checks, "failed_checks": [], "summary": "x", "seconds": 1}}
        for name, checks in answers.items()
    }
    inventory = {"all": {"vars": {"ansible_connection": "local"}, "hosts": {**hosts, "c": {}}}}
    (folder / "hosts.json").write_text(json.dumps(inventory))
    (folder / "play.yml").write_text(PLAY)
    words = [
        "ansible-playbook",
        "-i",
        "hosts.json",
        "play.yml",
        "-e",
        f"folder={folder} form={form}",
    ]
    done = subprocess.run(
        words, cwd=folder, check=False, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "report").read_text()


@pytest.mark.long
def test_one_file_has_all_nodes(tmp_path: Path) -> None:
    suites = list(ElementTree.fromstring(run(tmp_path, "junit")))
    assert {one.get("name"): (one.get("tests"), one.get("failures")) for one in suites} == {
        "a": ("1", "0"),
        "b": ("2", "1"),
        "c": ("1", "0"),
    }
    nodes = json.loads(run(tmp_path, "json"))["nodes"]
    assert {name: one["ready"] for name, one in nodes.items()} == {"a": True, "b": False, "c": None}


def test_a_form_that_is_none_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="'yaml' is not junit or json"):
        validation_report(["a"], {}, "x", "yaml")


@pytest.mark.long
def test_the_role_writes_its_files_before_a_node_fails(tmp_path: Path) -> None:
    """On this machine, which has no driver; a relative path counts from where ansible-playbook was started."""
    hosts = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"vars": hosts, "hosts": {"a": {}, "b": {}}}}
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    play = [{"hosts": "all", "gather_facts": False, "roles": ["gpu.node.validate"]}]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/play.yml").write_text(json.dumps(play))
    paths = f"validate_junit_path=one.xml validate_json_path={tmp_path}/two.json"
    words = ["ansible-playbook", "-i", "hosts.json", "elsewhere/play.yml", "-e", paths]
    env = {**os.environ, "PWD": str(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "driver: NVML failed" in done.stdout
    suites = list(ElementTree.parse(tmp_path / "one.xml").getroot())
    assert [one.get("name") for one in suites] == ["a", "b"]
    assert all(int(one.get("failures") or 0) > 0 for one in suites)
    nodes = json.loads((tmp_path / "two.json").read_text())["nodes"]
    assert [one["ready"] for one in nodes.values()] == [False, False]


def test_pods_that_tried_a_node_are_in_the_file() -> None:
    tried = {"__pods": {"checks": [{**BAD, "name": "pod with nvidia.com/gpu"}]}}
    known = {
        "a": {"found": {"checks": [GOOD]}, **tried},
        "b": {"found": {"checks": [GOOD]}},
        "c": tried,
    }
    text = validation_report(["a", "b", "c"], known, "found", "json", "__pods")
    nodes = json.loads(text)["nodes"]
    assert [one["name"] for one in nodes["a"]["checks"]] == ["driver", "pod with nvidia.com/gpu"]
    assert [nodes[name]["ready"] for name in "abc"] == [False, True, None]
