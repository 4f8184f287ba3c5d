# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The hooks for nodes of Slurm, against genuine Slurm."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually

pytestmark = [pytest.mark.node, pytest.mark.long]

HOOKS = REPOSITORY / "playbooks/hooks"
PREPARE = """
set -e
name=$(hostname)
mkdir -p /etc/slurm
echo 'CgroupPlugin=disabled' >/etc/slurm/cgroup.conf
cat >/etc/slurm/slurm.conf <<END
ClusterName=here
SlurmctldHost=$name
SlurmUser=slurm
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ReturnToService=2
KillWait=1
NodeName=$name CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
END
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge
systemctl restart munge slurmctld slurmd
"""


def field(node: Node, name: str) -> str:
    """Return a field of what scontrol shows of the node."""
    shown = node.run("scontrol", "show", "node", node.name)
    lines = [one.strip() for one in shown.splitlines() if one.strip().startswith(f"{name}=")]
    return lines[0].removeprefix(f"{name}=") if lines else ""


def state(node: Node) -> str:
    """Return the node's state, without the flag that slurmd has not answered for a moment."""
    return (field(node, "State").split() or [""])[0].replace("+NOT_RESPONDING", "")


def hook(node: Node, name: str, *, fails: bool = False, **variables: object) -> tuple[int, str]:
    """Run a hook; return how many tasks have changed something, and what has failed."""
    task = {"ansible.builtin.include_tasks": str(HOOKS / f"slurm_{name}.yml")}
    play = {"hosts": "all", "gather_facts": False, "become": True, "tasks": [task]}
    path = node.folder / f"{name}.json"
    path.write_text(json.dumps([play]))
    done = node.play(str(path), gpu_nodes_slurm_controller=node.name, **variables)
    assert done.ok != fails, done.message()
    return len(done.changed()), "" if done.ok else done.message()


def test_slurm_s_node_is_drained_and_given_back(make_node: Callable[..., Node]) -> None:
    node = make_node("slurm", "", 0)
    node.run("sh", "-c", PREPARE)
    eventually(lambda: state(node), "IDLE")

    node.run("sbatch", "--ntasks=1", "--output=/dev/null", "--wrap=sleep 600")
    eventually(lambda: state(node), "MIXED")
    changed, said = hook(node, "drain", fails=True, gpu_nodes_slurm_timeout=5)
    assert "still has jobs after 5 s: State=MIXED+DRAIN" in said
    assert changed == 1
    assert field(node, "Reason").startswith("gpu.node: maintenance [")

    node.run("scancel", "--user=root")
    assert hook(node, "drain", gpu_nodes_slurm_timeout=120) == (0, "")
    assert state(node) == "IDLE+DRAIN"
    assert hook(node, "resume") == (1, "")
    eventually(lambda: state(node), "IDLE")
    assert hook(node, "resume") == (
        0,
        "",
    )  # Slurm keeps the reason, and refuses a RESUME of what is idle

    node.run("scontrol", "update", f"NodeName={node.name}", "State=DRAIN", "Reason=bad memory")
    assert hook(node, "drain") == (0, "")
    assert hook(node, "resume") == (0, "")
    assert state(node) == "IDLE+DRAIN"
    assert field(node, "Reason").startswith("bad memory")

    _changed, said = hook(node, "drain", fails=True, gpu_nodes_slurm_node_name="nowhere")
    assert "scontrol show node nowhere failed: Node nowhere not found" in said
