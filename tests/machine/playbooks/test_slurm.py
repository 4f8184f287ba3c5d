# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The hooks for nodes of Slurm, with a scontrol that replays what the genuine one said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import FAKES, REPOSITORY

HOOKS = REPOSITORY / "playbooks/hooks"
OURS = "gpu.node: driver upgrade"
Run = Callable[..., tuple[dict[str, list[str]], str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs a hook on nodes of such states and reasons.

    It returns the states that each was given by an update, and all that Ansible said.
    """
    script, nodes = tmp_path / "scontrol", tmp_path / "nodes.json"
    shutil.copy(FAKES / "slurm/scontrol.py", tmp_path / "scontrol.py")
    script.write_text(f'#!/bin/sh\nexec python3 {tmp_path}/scontrol.py "$@"\n')
    script.chmod(0o755)
    python = "{{ ansible_playbook_python }}"
    head = {"ansible_connection": "local", "ansible_python_interpreter": python}
    nowhere = {"ansible_connection": "ssh", "ansible_host": "192.0.2.1"}

    def play(
        hook: str,
        scene: dict[str, dict[str, Any]],
        options: dict[str, Any] | None = None,
        **more: Any,
    ) -> tuple[dict[str, list[str]], str]:
        nodes.write_text(
            json.dumps({name: {"reason": "", "updates": [], **one} for name, one in scene.items()})
        )
        hosts = {f"{name}.example.com": nowhere for name in scene}
        inventory = {"all": {"hosts": {"head": head}, "children": {"nodes": {"hosts": hosts}}}}
        (tmp_path / "hosts.json").write_text(json.dumps(inventory))
        variables = {
            "gpu_nodes_slurm_controller": "head",
            "gpu_nodes_drain_reason": "driver upgrade",
            "gpu_nodes_slurm_timeout": 60,
            **more,
        }
        task = {"ansible.builtin.include_tasks": str(HOOKS / f"slurm_{hook}.yml")}
        one = {"hosts": "nodes", "gather_facts": False, "vars": variables, "tasks": [task]}
        (tmp_path / "play.json").write_text(json.dumps([one]))
        done = subprocess.run(
            [
                *("ansible-playbook", "-i", str(tmp_path / "hosts.json")),
                *("-e", json.dumps(options or {}), str(tmp_path / "play.json")),
            ],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )
        made = {
            name: [given["State"] for given in one["updates"]]
            for name, one in json.loads(nodes.read_text()).items()
        }
        return made, done.stdout + done.stderr

    return play


def test_a_node_of_slurm_is_drained_once(run: Run) -> None:
    made, said = run(
        "drain",
        {
            "idle": {"states": ["IDLE"]},
            "resumed": {"states": ["IDLE"], "reason": OURS},  # Slurm keeps it after RESUME
            "drained": {"states": ["IDLE+DRAIN"], "reason": OURS},
            "theirs": {"states": ["IDLE+DRAIN"], "reason": "bad memory"},
            "down": {"states": ["DOWN*+DRAIN"], "reason": OURS},
            "busy": {"states": ["MIXED", "ALLOCATED", "IDLE+COMPLETING", "IDLE"]},
        },
    )
    assert said.count("failed=0") == 6, said
    drained = {name for name, states in made.items() if states == ["DRAIN"]}
    assert drained == {"idle", "resumed", "busy"}
    assert sum(map(len, made.values())) == 3


def test_jobs_that_do_not_end_are_said(run: Run) -> None:
    made, said = run("drain", {"busy": {"states": ["ALLOCATED"]}}, gpu_nodes_slurm_timeout=1)
    assert made == {"busy": ["DRAIN"]}
    assert "busy.example.com still has jobs after 1 s: State=ALLOCATED+DRAIN" in said
    assert "raise gpu_nodes_slurm_timeout" in said


def test_only_what_was_drained_by_us_is_resumed(run: Run) -> None:
    scene = {
        "drained": {"states": ["IDLE+DRAIN"], "reason": OURS},
        "down": {"states": ["DOWN+DRAIN+NOT_RESPONDING"], "reason": OURS},
        "idle": {"states": ["IDLE"], "reason": OURS},
        "theirs": {"states": ["IDLE+DRAIN"], "reason": f"bad memory, see {OURS}"},
        "noted": {"states": ["IDLE+DRAIN"], "reason": "x", "comment": f"Reason={OURS}"},
    }
    made, said = run("resume", scene)
    assert said.count("failed=0") == 5, said
    assert {name for name, states in made.items() if states == ["RESUME"]} == {"drained", "down"}
    assert sum(map(len, made.values())) == 2
    for name in ("theirs", "noted"):
        assert f"{name}.example.com stays drained in Slurm" in said
    assert said.count("stays drained in Slurm") == 2


FENCE = {"__slurm_owner": "gpu.node quarantine", "__slurm_waits": False}
FENCED = "gpu.node quarantine: XID 79"


def test_a_node_in_quarantine_is_drained_under_its_own_name_and_not_waited_for(run: Run) -> None:
    made, said = run(
        "drain",
        {
            "idle": {"states": ["IDLE"]},
            "busy": {"states": ["ALLOCATED"]},
            "failed": {"states": ["IDLE+DRAIN"], "reason": OURS},
            "theirs": {"states": ["IDLE+DRAIN"], "reason": "bad memory"},
            "fenced": {"states": ["IDLE+DRAIN"], "reason": FENCED},
        },
        **FENCE,
    )
    assert said.count("failed=0") == 5, said
    drained = {name for name, states in made.items() if states == ["DRAIN"]}
    assert drained == {"idle", "busy", "failed"}


def test_only_its_release_gives_back_what_is_in_quarantine(run: Run) -> None:
    scene = {
        "fenced": {"states": ["IDLE+DRAIN"], "reason": FENCED},
        "drained": {"states": ["IDLE+DRAIN"], "reason": OURS},
    }
    made, said = run("resume", scene)
    assert made == {"fenced": [], "drained": ["RESUME"]}, said
    assert "fenced.example.com stays drained in Slurm" in said
    made, said = run("resume", scene, **FENCE)
    assert made == {"fenced": ["RESUME"], "drained": []}, said


GATE = {"__slurm_owner": "gpu.node acceptance", "__slurm_waits": False}
HELD = "gpu.node acceptance: GPU-a: not accepted: it was never tested"


def test_quarantine_outlasts_the_gate_which_outlasts_a_change(run: Run) -> None:
    scene = {
        "changed": {"states": ["IDLE+DRAIN"], "reason": OURS},
        "held": {"states": ["IDLE+DRAIN"], "reason": HELD},
        "fenced": {"states": ["IDLE+DRAIN"], "reason": FENCED},
        "theirs": {"states": ["IDLE+DRAIN"], "reason": "bad memory"},
    }
    nobody: dict[str, list[str]] = {name: [] for name in scene}
    assert run("drain", scene)[0] == nobody
    assert run("drain", scene, **GATE)[0] == nobody | {"changed": ["DRAIN"]}
    assert run("drain", scene, **FENCE)[0] == nobody | {"changed": ["DRAIN"], "held": ["DRAIN"]}
    assert run("resume", scene)[0] == nobody | {"changed": ["RESUME"]}
    assert run("resume", scene, **GATE)[0] == nobody | {"held": ["UNDRAIN"]}
    assert run("resume", scene, **FENCE)[0] == nobody | {"fenced": ["RESUME"]}


@pytest.mark.parametrize("gate", ["open", "held: GPU-a: not accepted: it was never tested\nheld"])
@pytest.mark.parametrize("owner", [{}, FENCE])
def test_node_whose_gate_is_closed_is_not_resumed(
    run: Run, tmp_path: Path, gate: str, owner: dict[str, Any]
) -> None:
    program = tmp_path / "gpu-plugin"
    program.write_text(f"#!/bin/sh\nprintf '%s\n' '{gate}'\ntest '{gate}' = open\n")
    program.chmod(0o755)
    python = "{{ ansible_playbook_python }}"
    here = {"ansible_connection": "local", "ansible_python_interpreter": python}
    scene = {"n": {"states": ["IDLE+DRAIN"], "reason": FENCED if owner else OURS}}
    gated = {"__slurm_program": str(program), "gpu_nodes_gate": True}
    made, said = run("resume", scene, options={**here, **gated}, **owner)
    assert "failed=0" in said, said
    if gate == "open":
        assert made == {"n": ["RESUME"]}
    else:
        assert made == {"n": ["DRAIN"]}
        reason = json.loads((tmp_path / "nodes.json").read_text())["n"]["reason"]
        assert reason.startswith("gpu.node acceptance: the gate is closed")


@pytest.mark.parametrize("hook", ["drain", "resume"])
def test_a_node_that_slurm_does_not_know_is_said(run: Run, hook: str) -> None:
    scene = {"idle": {"states": ["IDLE"]}}
    made, said = run(hook, scene, gpu_nodes_slurm_node_name="gpu-9")
    assert made == {"idle": []}
    assert "scontrol show node gpu-9 failed: Node gpu-9 not found" in said
    assert "correct gpu_nodes_slurm_controller or gpu_nodes_slurm_node_name" in said
