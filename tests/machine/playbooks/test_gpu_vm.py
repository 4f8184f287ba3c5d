# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What molecule's gpu-vm makes of the user's variables, and of what the machines answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import REPOSITORY

SCENARIO = REPOSITORY / "molecule/gpu-vm"
FAILED = '<testcase name="test_c[ansible://b]"><failure message="assert 1 | 2"/></testcase>'
SKIPPED = '<testcase name="test_d[ansible://a]"><skipped message="Skipped: no kubelet"/></testcase>'
SKIPPED += (
    '<testcase name="test_b[ansible://a]"><skipped message="Skipped: no kubelet"/></testcase>'
)


def machines(**env: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(SCENARIO / "machines.py"), "--list"]
    return subprocess.run(words, env=env, check=False, capture_output=True, text=True)


def hosts(**env: str) -> dict[str, Any]:
    done = machines(**env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["gpu_nodes"]["hosts"] == list(found["_meta"]["hostvars"])
    names: dict[str, Any] = found["_meta"]["hostvars"]
    return names


def reach(host: dict[str, Any]) -> tuple[str, int, str, bool]:
    return (
        host["ansible_host"],
        host["ansible_port"],
        host["ansible_user"],
        host["ansible_become"],
    )


def test_each_machine_is_a_host_of_its_own() -> None:
    found = hosts(GPU_VM_HOSTS="10.0.0.5, ubuntu@gpu-2:2222,10.0.0.6", GPU_VM_USER="admin")
    assert {name: reach(one) for name, one in found.items()} == {
        "10.0.0.5": ("10.0.0.5", 22, "admin", True),
        "vm-gpu-2-2222": ("gpu-2", 2222, "ubuntu", True),
        "10.0.0.6": ("10.0.0.6", 22, "admin", True),
    }


def test_machines_behind_ports_of_this_one_are_not_ansibles_localhost() -> None:
    found = hosts(GPU_VM_HOSTS="127.0.0.1:2201,127.0.0.1:2202,[::1]", GPU_VM_PORT="2203")
    assert {name: reach(one) for name, one in found.items()} == {
        "vm-127.0.0.1-2201": ("127.0.0.1", 2201, "root", False),
        "vm-127.0.0.1-2202": ("127.0.0.1", 2202, "root", False),
        "vm---1-2203": ("::1", 2203, "root", False),
    }
    (name,) = (local := hosts(GPU_VM_HOSTS="localhost"))
    assert name == "this-machine"
    assert local[name]["ansible_connection"] == "local"


def test_variables_come_from_a_file_of_the_user(tmp_path: Path) -> None:
    path, key = tmp_path / "vars.yml", tmp_path / "key"
    path.write_text("gpu_nodes_require_gpu: true\nmig_selected: half\n")
    key.touch()
    done = machines(GPU_VM_HOSTS="a", GPU_VM_VARS=str(path), GPU_VM_KEY=str(key))
    found = json.loads(done.stdout)
    assert found["gpu_nodes"]["vars"] == {"gpu_nodes_require_gpu": True, "mig_selected": "half"}
    assert found["_meta"]["hostvars"]["a"]["ansible_ssh_private_key_file"] == str(key)


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({}, "GPU_VM_HOSTS is empty. Next step: set it to machines with NVIDIA GPUs"),
        ({"GPU_VM_HOSTS": "a:ssh"}, "'a:ssh' is not valid: expected host, user@host or user@host:"),
        ({"GPU_VM_HOSTS": "u:pw@a"}, "'u:pw@a' is not valid"),
        ({"GPU_VM_HOSTS": "a,a"}, "names a machine twice"),
        ({"GPU_VM_HOSTS": "a", "GPU_VM_KEY": "/none"}, "GPU_VM_KEY: /none is no file"),
        ({"GPU_VM_HOSTS": "a", "GPU_VM_VARS": "/none"}, "GPU_VM_VARS: /none is no file"),
        ({"GPU_VM_HOSTS": "a", "GPU_VM_VARS": "list"}, "expected variables, as `name: value`"),
        ({"GPU_VM_HOSTS": "a", "GPU_VM_VARS": "bad"}, "bad is no YAML"),
    ],
)
def test_what_can_not_be_used_is_told(env: dict[str, str], told: str, tmp_path: Path) -> None:
    for name, text in {"list": "- a\n", "bad": "a: [\n"}.items():
        (tmp_path / name).write_text(text)
        if env.get("GPU_VM_VARS") == name:
            env = {**env, "GPU_VM_VARS": str(tmp_path / name)}
    done = machines(**env)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def answers() -> dict[str, Any]:
    """Return what two machines answered, of which the second was not reached."""
    facts = {
        "ansible_distribution": "Rocky",
        "ansible_distribution_version": "9.6",
        "ansible_architecture": "x86_64",
        "ansible_kernel": "5.14",
    }
    gpu = {"name": "NVIDIA A30", "gpu_instances": [{}]}
    info = {"driver": {"version": "580.1", "module_type": "open"}, "cuda_version": "13.0"}
    check = {"name": "MPS", "state": "skipped", "cause": "no | device\nis shared"}
    return {
        "names": ["a", "b"],
        "system": [{"ansible_facts": facts}, {"unreachable": True}],
        "gpus": [{"gpu_info": {**info, "gpus": [gpu, gpu]}}, {}],
        "runtimes": [{"runtimes": [{"name": "docker", "version": "28.5"}]}, {}],
        "checks": [{"checks": [{"name": "driver", "state": "passed", "cause": ""}, check]}, {}],
    }


def table(folder: Path, tests: str) -> list[str]:
    (folder / "machines.json").write_text(json.dumps(answers()))
    if tests:
        (folder / "tests.xml").write_text(
            f"<testsuites><testsuite>{tests}</testsuite></testsuites>"
        )
    words = [sys.executable, str(SCENARIO / "table.py"), str(folder)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


def test_the_table_has_what_an_issue_needs_and_no_address(tmp_path: Path) -> None:
    passed = '<testcase name="test_a[ansible://a]"/>'
    lines = table(tmp_path, passed + SKIPPED + FAILED)
    assert lines[2] == (
        "| 1 | Rocky 9.6, x86_64 | 5.14 | 580.1 (open), CUDA 13.0 | 2 x NVIDIA A30, MIG on 2 | docker 28.5"
        " | 1 passed, 1 skipped | 1 passed, 2 skipped | passed |"
    )
    assert lines[3] == (
        "| 2 | does not answer |  | not loaded | none answers | none | not run | 1 failed | failed |"
    )
    assert lines[5:] == [
        "- 1: check MPS skipped: no \\| device is shared",
        "- 1: test_d, test_b skipped: no kubelet",
        "- 2: test_c failed: assert 1 \\| 2",
    ]


def test_a_run_that_ended_before_the_tests_has_not_passed(tmp_path: Path) -> None:
    assert table(tmp_path, "")[2].endswith("| 1 passed, 1 skipped | not run | not finished |")
