# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Faults of each class on a node of genuine Slurm, over and over: what becomes of the GPUs, and of the jobs beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.node.repair import faults, times
from tests.node.repair.faults import GPUS, ROUNDS, Fault, Gpu
from tests.node.slurm.test_slurm_hooks import PREPARE, field, state
from tests.support.waiting import eventually

HOURS = 4 * 3600  # after which it hangs
pytestmark = [pytest.mark.node, pytest.mark.endurance, pytest.mark.timeout(HOURS)]

GRES = f"Name=gpu File=/dev/nvidia[0-{GPUS - 1}]"
WHOLE = {"devices": "all", "mig-enabled": False}
REST = (
    faults.RECOVERY,
    faults.DRAIN,
    faults.FABRIC,
    faults.MEMORY,
    faults.UNKNOWN,
    faults.APPLICATION,
)
# The job has a GPU, and ends by itself once the run waits for it.
JOB = "until scontrol show node $(hostname) | grep -q State=.*DRAIN; do sleep 0.2; done"


def submitted(node: Node, *words: str) -> str:
    """Submit a job with a GPU and return its number."""
    told = node.run("sbatch", "--parsable", "--gres=gpu:1", "--output=/dev/null", *words)
    return told.strip()


def job(node: Node, number: str) -> str:
    """Return a job's state with its exit code."""
    shown = node.run("scontrol", "show", "job", number)
    words = dict(one.split("=", 1) for one in shown.split() if "=" in one)
    return f"{words['JobState']} {words['ExitCode']} {words['Restarts']}"


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """A node in service whose GPUs Slurm gives out."""
    return of_slurm(make_node("slurm-repair", "h100-80", GPUS, mig_config=[WHOLE]))


@pytest.fixture
def connected(make_node: Callable[..., Node]) -> Node:
    """Such a node, some of whose GPUs NVLinks connect without switches."""
    return of_slurm(make_node("slurm-chain", "v100", GPUS))


def of_slurm(node: Node) -> Node:
    """Bring a node up, and have Slurm give out its GPUs."""
    up = node.play("gpu.node.slurm_node")
    assert up.ok, up.message()
    with_gpus = PREPARE.replace("CPUs=2", f"CPUs=2 Gres=gpu:{GPUS}")
    with_gpus = with_gpus.replace("ClusterName=", "GresTypes=gpu\nClusterName=")
    node.run("sh", "-c", f"mkdir -p /etc/slurm && echo '{GRES}' >/etc/slurm/gres.conf")
    node.run("sh", "-c", with_gpus)
    eventually(lambda: state(node), "IDLE")
    return node


@contextmanager
def jobs_end_well(node: Node) -> Iterator[None]:
    """Have a job that runs when something begins, and one that comes after it; none of them is ended by it."""
    runs = submitted(node, f"--wrap={JOB}")
    eventually(lambda: job(node, runs).split()[0], "RUNNING")
    waits = submitted(node, f"--dependency=afterany:{runs}", "--wrap=true")
    yield
    assert job(node, runs) == "COMPLETED 0:0 0"
    eventually(lambda: job(node, waits), "COMPLETED 0:0 0")


def in_service(node: Node) -> None:
    """See that Slurm gives the node out with all of its GPUs, as it does not ask who has set one aside."""
    eventually(lambda: state(node), "IDLE")
    assert field(node, "Gres") == f"gpu:{GPUS}"


def given(node: Node, folder: Path) -> dict[str, Any]:
    """Return what the runs are given."""
    return {
        **faults.variables(folder),
        "gpu_nodes_hooks_before": ["slurm_drain"],
        "gpu_nodes_hooks_after": ["slurm_resume"],
        "gpu_nodes_slurm_controller": node.name,
    }


def test_gpus_of_a_node_at_once_end_as_the_table_says_and_jobs_end_well(
    node: Node, tmp_path: Path
) -> None:
    found, known = faults.gpus(node), given(node, tmp_path)
    for number in range(ROUNDS // 2 + 1):  # as nothing can be back in the first one
        every = faults.turns(number, found[:2], found[2:4])
        every |= zip(found[4:], 2 * REST, strict=True)
        with jobs_end_well(node):
            repaired(node, every, known, tmp_path)
        faults.put_back(node, every, faults.REQUIRED)


def test_lost_gpus_wait_for_a_reboot_and_so_does_a_reset_beside_them(
    node: Node, tmp_path: Path
) -> None:
    known, every = given(node, tmp_path), faults.lost(faults.gpus(node))
    for _round in range(-(-2 * ROUNDS // len(every))):
        repaired(node, every, known, tmp_path)
        faults.put_back(node, every)


def test_a_fault_that_comes_back_asks_for_a_reboot_and_then_for_a_replacement(
    connected: Node, tmp_path: Path
) -> None:
    node, found, known = connected, faults.gpus(connected), given(connected, tmp_path)
    for every in faults.chains(found):
        faults.connect(node)
        with jobs_end_well(node):
            repaired(node, every.resets, known, tmp_path)
        faults.put_back(node, every.resets, faults.RECOVERY)
        repaired(node, every.waits, known, tmp_path)
        with jobs_end_well(node):
            allowed = {**known, "repair_reboot": "when_needed"}
            repaired(node, every.more, allowed, tmp_path, every.reboots)
        faults.put_back(node, every.reboots, faults.rebooted(faults.AGAIN))


def repaired(
    node: Node,
    every: dict[Gpu, Fault],
    known: dict[str, Any],
    folder: Path,
    ends: dict[Gpu, Fault] | None = None,
) -> None:
    """Bring faults about, repair the node, and see what became of them, and of those that were there before."""
    rows = faults.repaired(node, every, known, folder, ends)
    in_service(node)
    times.keep("slurm", rows)
