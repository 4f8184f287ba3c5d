# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node with a gate in genuine Slurm: slurmd's health check and Prolog keep jobs from GPUs that were not accepted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.node.slurm.test_slurm_hooks import PREPARE, field, state
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

HOURS = 2 * 3600  # after which the loop hangs
ROUNDS = int(os.environ.get("SLURM_GATE_ROUNDS", "100"))
GPUS = 2
OURS = "gpu.node acceptance: "
RECORD = "/var/lib/gpu-node/acceptance.json"
GATE = "/opt/gpu-node/bin/gpu-plugin gate"
# The health check is killed after the seconds in a file.
SCRIPTS = f"""\
set -e
mkdir -p /etc/slurm
echo 60 >/etc/slurm/seconds
printf '#!/bin/sh\\nexec timeout -s KILL "$(cat /etc/slurm/seconds)" {GATE} slurm\\n' >/etc/slurm/health
printf '#!/bin/sh\\n{GATE} >/dev/null\\n' >/etc/slurm/prolog
chmod 755 /etc/slurm/health /etc/slurm/prolog
for unit in slurmd slurmctld; do
  mkdir -p /etc/systemd/system/$unit.service.d
  printf '[Unit]\\nStartLimitIntervalSec=0\\n' >/etc/systemd/system/$unit.service.d/often.conf
done
systemctl daemon-reload
"""
CONFIG = """\
HealthCheckProgram=/etc/slurm/health
HealthCheckInterval=5
Prolog=/etc/slurm/prolog
ClusterName="""
# Slurm that has never seen the node, with a job that waits for it.
SUBMIT = "sbatch --output=/dev/null --wrap='touch /run/ran'"
AFRESH = f"""\
set -e
systemctl stop slurmd slurmctld
rm -rf /var/lib/slurm/slurmctld/* /var/lib/slurm/slurmd/* /run/ran
systemctl start slurmctld
until {SUBMIT} 2>/dev/null; do :; done
"""
CLOSE = f"mv {RECORD} {RECORD}.aside; {GATE} check"
PASS = f"cp {RECORD}.aside {RECORD}; {GATE} check"


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """A node whose gate is on, and whose GPUs were not tested yet, with Slurm that knows its name alone."""
    node = make_node("slurm-gate", "h100-80", GPUS)
    up = node.play("gpu.node.slurm_node")
    assert up.ok, up.message()
    role = {"name": "gpu.node.accept", "tasks_from": "hold"}
    held = run_tasks(node, {"ansible.builtin.include_role": role}, gpu_nodes_gate=True)
    assert held.ok, held.message()
    with_gate = PREPARE.replace("ClusterName=", CONFIG).rpartition("systemctl restart")[0]
    node.run("sh", "-c", SCRIPTS)
    node.run("sh", "-c", f"{with_gate}\nsystemctl restart munge")
    return node


def run_tasks(node: Node, *tasks: dict[str, Any], **variables: Any) -> Any:
    """Run tasks on the node."""
    path = node.folder / "tasks.json"
    play = {"hosts": "all", "gather_facts": False, "become": True, "tasks": list(tasks)}
    path.write_text(json.dumps([play]))
    return node.play(str(path), **variables)


def has_run(node: Node) -> bool:
    """Return whether the job has run."""
    return node.run("sh", "-c", "test ! -e /run/ran || echo yes") != ""


def open_gate_by_test(node: Node) -> None:
    """Test the GPUs, which pass."""
    run = node.play("gpu.node.accept", gpu_nodes_gate=True, accept_duration=1)
    assert run.ok, run.message()


def become_idle(node: Node) -> None:
    """Have the node idle in Slurm, with its gate open."""
    open_gate_by_test(node)
    node.run("systemctl", "restart", "slurmctld", "slurmd")
    eventually(lambda: state(node), "IDLE")


@pytest.mark.node
@pytest.mark.long
def test_job_waits_until_the_gpus_have_passed(node: Node) -> None:
    node.run("sh", "-c", AFRESH)
    assert state(node) == "UNKNOWN"
    node.run("systemctl", "start", "slurmd")
    eventually(lambda: state(node), "IDLE+DRAIN")
    assert field(node, "Reason").startswith(f"{OURS}GPU GPU-")
    assert "it was never tested" in field(node, "Reason")
    assert "busy" in node.run("sh", "-c", "srun --immediate=2 true 2>&1 || true")
    node.run("systemctl", "restart", "slurmd")
    eventually(lambda: state(node), "IDLE+DRAIN")
    assert not has_run(node)
    assert OURS in node.run("journalctl", "-t", "gpu-plugin", "--no-pager")

    open_gate_by_test(node)  # which the next health check sees
    eventually(lambda: has_run(node))
    assert state(node).endswith(("IDLE", "COMPLETING"))
    assert node.run("srun", "hostname").strip() == node.name


@pytest.mark.node
@pytest.mark.long
def test_drain_of_an_administrator_outlasts_the_gate(node: Node) -> None:
    become_idle(node)
    node.run("scontrol", "update", f"NodeName={node.name}", "State=DRAIN", "Reason=bad memory")
    for change in (CLOSE, PASS):
        node.run("sh", "-c", change)
        node.run("/etc/slurm/health")
        assert state(node) == "IDLE+DRAIN"
        assert field(node, "Reason").startswith("bad memory")
    node.run("scontrol", "update", f"NodeName={node.name}", "State=RESUME")


@pytest.mark.node
@pytest.mark.long
def test_controller_drains_the_node_for_its_gate_and_gives_it_back(node: Node) -> None:
    become_idle(node)
    pin = {
        "ansible.builtin.include_role": {"name": "gpu.node.common", "tasks_from": "pin"},
    }
    path = str(REPOSITORY / "playbooks/tasks/accept/slurm.yml")
    for is_open, expected in ((False, "IDLE+DRAIN"), (True, "IDLE")):
        node.run("sh", "-c", PASS if is_open else CLOSE)
        gated = {"open": is_open, "held": [] if is_open else ["GPU GPU-a: not accepted"]}
        task = {"ansible.builtin.include_tasks": path, "vars": {"__accept_gated": gated}}
        run = run_tasks(node, pin, task, gpu_nodes_slurm_controller=node.name)
        assert run.ok, run.message()
        eventually(lambda: state(node), expected)


@pytest.mark.node
@pytest.mark.endurance
@pytest.mark.timeout(HOURS)
def test_no_job_meets_a_gpu_that_was_not_accepted_through_kills(node: Node) -> None:
    """Each health check before the first registration is killed a little later than the one before it."""
    open_gate_by_test(node)
    drained = 0
    for number in range(ROUNDS):
        node.run("sh", "-c", CLOSE)
        node.run("sh", "-c", f"{AFRESH}\necho 0.{5 * number + 1:03} >/etc/slurm/seconds")
        node.run("systemctl", "start", "slurmd")
        eventually(lambda: "DRAIN" in state(node))
        node.run("sh", "-c", "echo 60 >/etc/slurm/seconds; systemctl restart slurmd")
        is_ours = field(node, "Reason").startswith(OURS)
        assert is_ours or field(node, "Reason").startswith("Prolog error")
        assert "DRAIN" in state(node)
        assert not has_run(node)

        node.run("sh", "-c", f"{PASS}; /etc/slurm/health")
        drained += is_ours
        if not is_ours:  # as an administrator does
            assert "DRAIN" in state(node)
            node.run("scontrol", "update", f"NodeName={node.name}", "State=RESUME")
            node.run("sh", "-c", f"scancel --user=root; {SUBMIT}")  # as that job waits for minutes
        eventually(lambda: has_run(node))
    assert 0 < drained < ROUNDS or ROUNDS < 10
