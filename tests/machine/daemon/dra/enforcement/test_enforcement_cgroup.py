# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Limits on pods' cgroups: a simulated driver of branch 615, and folders that are as the kernel's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin._shared._base.kubelet import pods
from gpu_plugin.dra.enforcement import cgroup as cgroups
from gpu_plugin.dra.enforcement.cgroup import NOTHING
from gpu_plugin.dra.users import STATE
from hypothesis import given
from hypothesis import strategies as st
from nvsim.testing import PROJECT, Sim, client, start

from tests.fakes.dra.enforcing import MIB, Limiting, share
from tests.support.waiting import eventually

VERSION = "615.71.01"
POD = "0b6f2f53-94ab-4f6c-a5a4-0d8a2bdc1c5e"
THIRD = "0a6f2f53-94ab-4f6c-a5a4-0d8a2bdc1c5e"
OTHER = "1b6f2f53-94ab-4f6c-a5a4-0d8a2bdc1c5e"
MAX = 0xFFFFFFFFFFFFFFFF


class Node:
    """A machine whose driver and cgroups a test chooses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cgroups = folder, folder / "cgroup"
        self.cgroups.mkdir()
        (self.cgroups / "cgroup.controllers").write_text("cpu memory dmem\n")
        self.library = folder / "lib"
        self.library.mkdir()
        name = f"libnvidia-ml.so.{VERSION}"
        shutil.copy(PROJECT / "build/libnvidia-ml.so.1", self.library / name)
        (self.library / "libnvidia-ml.so.1").symlink_to(name)
        self.sim = start("h100-80", 2, driver=VERSION)
        self.made: list[Limiting] = []

    def limit(self) -> Limiting:
        self.made.append(Limiting(self.sim, self.cgroups, self.library, self.folder))
        return self.made[-1]

    def kubelet_has(self, **claims: Sequence[str]) -> None:
        """Let the kubelet write down which pods have which claims."""
        listed = [
            {"ClaimUID": claim, "PodUIDs": {one: {} for one in pods}}
            for claim, pods in claims.items()
        ]
        data = json.dumps({"ClaimInfoStateList": listed})
        temporary = self.folder / "new"
        temporary.write_text(json.dumps({"Data": data, "Checksum": 0}))
        temporary.rename(self.folder / STATE)

    def pod(self, uid: str = POD, quality: str = "burstable", *, dmem: bool = False) -> Path:
        """Make a pod's cgroup, as a kubelet with systemd does."""
        names = [one for one in cgroups.candidates(uid) if f"-{quality}-pod" in one]
        group = self.cgroups / names[0]
        group.mkdir(parents=True)
        if dmem:
            (self.cgroups / "dmem.capacity").write_text(
                "nvidia/00000000:18:00.0/vidmem 85520809984\n"
            )
        for one in (group, *group.parents):
            if one.is_relative_to(self.cgroups):
                (one / "cgroup.subtree_control").touch()
                if dmem and one != self.cgroups:
                    (one / "dmem.max").touch()
        return group

    def hard(self, group: Path, gpu: int = 0) -> int:
        """Return what the driver says, asked by another process."""
        sim = Limits(self.sim, self.library)
        return sim.hard(group, gpu)

    def stop(self) -> None:
        for one in self.made:
            one.kill()
        self.sim.stop()


class Limits:
    """The driver's limits, read with nothing of ours."""

    def __init__(self, sim: Sim, library: Path) -> None:
        self.sim, self.library = sim, library

    def hard(self, group: Path, gpu: int) -> int:
        before = self.sim.env
        self.sim.env = {**before, "LD_LIBRARY_PATH": str(self.library)}
        try:
            found: int = client(
                self.sim,
                f"""
                n.nvmlInit()
                asked = n.c_nvmlGetMemoryLimits_v1_t()
                asked.nameSpace = {str(group)!r}.encode()
                handle = n.nvmlDeviceGetHandleByIndex({gpu})
                missing = code(n.nvmlDeviceGetMemoryLimits_v1, handle, asked)
                answer({MAX} if missing else asked.hardLimit)
                """,
            )
        finally:
            self.sim.env = before
        return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    if os.geteuid() != 0:
        pytest.skip("limits can be set by root only")
    made = Node(tmp_path)
    yield made
    made.stop()


def of(node: Node, claim: str = "c1", pod: str = POD, **more: Any) -> dict[str, Any]:
    return share(node.sim, claim, pods=[pod], **more)


@pytest.mark.parametrize("dmem", [True, False], ids=["dmem", "misc"])
def test_cgroup_limits_the_pod_and_gives_it_back(node: Node, dmem: bool) -> None:
    group, limiting = node.pod(dmem=dmem), node.limit()
    one = of(node, memory=3000 * MIB)
    eventually(lambda: limiting.ask("problem", one["gpu_uuid"]) == "")
    assert limiting.ask("prepare", one) == {"env": {}, "mounts": []}
    assert limiting.ask("prepare", one) == {"env": {}, "mounts": []}
    assert node.hard(group) == 3000 * MIB
    assert node.hard(group, gpu=1) == MAX
    if dmem:
        assert (group / "dmem.max").read_text() == f"nvidia/00000000:18:00.0/vidmem {3000 * MIB}\n"
        assert (group / "dmem.min").read_text() == "nvidia/00000000:18:00.0/vidmem 0\n"
    limiting.ask("unprepare", one)
    limiting.ask("unprepare", one)
    assert node.hard(group) == MAX


def test_claims_of_one_pod_add_up_and_pods_do_not(node: Node) -> None:
    group, other, limiting = node.pod(), node.pod(OTHER), node.limit()
    limiting.ask("prepare", of(node, "c1", memory=1000 * MIB))
    limiting.ask("prepare", of(node, "c2", memory=500 * MIB))
    limiting.ask("prepare", of(node, "c3", pod=OTHER, memory=200 * MIB))
    limiting.ask("prepare", of(node, "c4", memory=70 * MIB, gpu=1))
    assert (node.hard(group), node.hard(other)) == (1500 * MIB, 200 * MIB)
    assert node.hard(group, gpu=1) == 70 * MIB
    limiting.ask("unprepare", of(node, "c1", memory=1000 * MIB))
    assert (node.hard(group), node.hard(other)) == (500 * MIB, 200 * MIB)


def test_process_that_is_killed_takes_up_what_lives(node: Node) -> None:
    group, one = node.pod(), of(node, memory=900 * MIB)
    node.limit().ask("prepare", one)
    node.made[0].kill()
    assert node.hard(group) == 900 * MIB
    again = node.limit()
    again.ask("restore", one)
    node.sim.ctl("unload")
    node.sim.ctl("load", version=VERSION, flavour="open")
    again.ask("tick")
    eventually(lambda: node.hard(group) == 900 * MIB)
    shutil.rmtree(group)
    again.ask("tick")
    again.ask("unprepare", one)  # the cgroup took its limit along


@pytest.mark.attack("limit-of-a-pod-lifted")
def test_limit_that_somebody_changed_is_set_again(node: Node) -> None:
    group, limiting = node.pod(dmem=True), node.limit()
    limiting.ask("prepare", of(node, memory=900 * MIB))
    (group / "dmem.max").write_text("nvidia/00000000:18:00.0/vidmem max\n")
    limiting.ask("tick")
    eventually(lambda: node.hard(group) == 900 * MIB)


@pytest.mark.attack("limit-of-a-pod-lifted")
def test_limit_that_the_driver_took_and_did_not_keep_is_refused(node: Node) -> None:
    group, limiting = node.pod(dmem=True), node.limit()
    limit = group / "dmem.max"
    limit.unlink()
    limit.symlink_to("/dev/null")
    words = f"did not take the memory limit of {group}: {900 * MIB} bytes .*, {MAX} were read back"
    with pytest.raises(RuntimeError, match=words):
        limiting.ask("prepare", of(node, "c1", memory=900 * MIB))
    limit.unlink()
    limit.touch()
    limiting.ask("prepare", of(node, "c2", memory=70 * MIB))
    assert node.hard(group) == 70 * MIB  # the share that was refused does not count


@pytest.mark.attack("claim-named-by-many")
def test_pod_that_joins_a_claim_has_none_of_its_memory_until_those_before_it_have_ended(
    node: Node,
) -> None:
    """The kubelet has a claim prepared once, and writes down each pod before its containers start."""
    first, later, last = (node.pod(uid) for uid in (POD, OTHER, THIRD))
    limiting = node.limit()
    node.kubelet_has(named=[POD])
    limiting.ask("prepare", of(node, "named", memory=900 * MIB))

    def limits(*pods: str) -> list[int]:
        node.kubelet_has(named=pods)
        limiting.ask("tick")
        return [node.hard(one) // MIB for one in (first, later, last)]

    none, some = NOTHING // MIB, MAX // MIB
    eventually(lambda: limits(POD, OTHER), [900, none, some])
    eventually(lambda: limits(POD, OTHER, THIRD), [900, none, none])
    eventually(lambda: limits(OTHER, THIRD)[1:], [900, none])
    limiting.ask("prepare", of(node, "own", pod=THIRD, memory=70 * MIB))
    assert node.hard(last) == 70 * MIB
    eventually(lambda: limits(THIRD)[2:], [970])


@pytest.mark.attack("claim-named-by-many")
def test_claim_of_several_pods_has_its_memory_once(node: Node) -> None:
    first, later, limiting = node.pod(), node.pod(OTHER), node.limit()
    limiting.ask("prepare", {**of(node, memory=900 * MIB), "pods": [POD, OTHER]})
    assert (node.hard(first), node.hard(later)) == (900 * MIB, NOTHING)
    limiting.ask("unprepare", {**of(node, memory=900 * MIB), "pods": [POD, OTHER]})
    assert (node.hard(first), node.hard(later)) == (MAX, MAX)


@pytest.mark.attack("limit-of-a-pod-lifted")
def test_limit_that_fails_keeps_no_other_pod_from_its_own(node: Node) -> None:
    refused, group, limiting = node.pod(dmem=True), node.pod(OTHER, dmem=True), node.limit()
    (refused / "dmem.max").unlink()
    (refused / "dmem.max").symlink_to("/dev/null")
    limiting.ask("restore", of(node), of(node, "c2", pod=OTHER, memory=70 * MIB))
    limiting.ask("tick")
    eventually(lambda: node.hard(group) == 70 * MIB)


def test_start_does_not_wait_for_a_driver_that_hangs(node: Node) -> None:
    group, limiting = node.pod(), node.limit()
    node.sim.ctl("hang", function="*")
    limiting.ask("restore", of(node, memory=900 * MIB))
    limiting.ask("tick")
    node.sim.ctl("clear-faults")
    eventually(lambda: node.hard(group) == 900 * MIB)


def test_pod_without_cgroup_or_no_pod_is_refused_and_leaves_nothing(node: Node) -> None:
    limiting = node.limit()
    with pytest.raises(RuntimeError, match=f"pod {POD} has no cgroup: .*cgroupsPerQOS"):
        limiting.ask("prepare", of(node))
    group = node.pod()
    limiting.ask("tick")
    assert node.hard(group) == MAX  # the share that was refused is not remembered
    with pytest.raises(RuntimeError, match="no pod is known that has claim c1"):
        limiting.ask("prepare", {**of(node), "pods": []})
    with pytest.raises(RuntimeError, match=r"pod: '../x' is not valid"):
        limiting.ask("prepare", of(node, pod="../x"))


def test_why_not_is_told_by_the_driver_and_the_kernel(node: Node) -> None:
    uuid = of(node)["gpu_uuid"]
    with start("h100-80", 1) as old:
        older = Limiting(old, node.cgroups)
        words = "the driver is 550.163.01, and drivers limit cgroups from 615 on"
        eventually(lambda: older.ask("problem", uuid) == words)
        older.kill()
    node.sim.ctl("fault", gpu="all", function="nvmlDeviceGetMemoryLimits_v1", code=13)
    limiting = node.limit()
    assert limiting.ask("problem", uuid) == "the driver has not told yet whether it limits cgroups"
    words = "does not have nvmlDeviceSetMemoryLimits_v1"
    eventually(lambda: words in limiting.ask("problem", uuid))
    subprocess.run(["mount", "--bind", "-r", node.cgroups, node.cgroups], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", node.cgroups], check=True)
    try:
        assert "read-only for this process" in limiting.ask("problem", uuid)
    finally:
        subprocess.run(["umount", node.cgroups], check=True)
    (node.cgroups / "cgroup.controllers").unlink()
    assert "has cgroups of version 1" in limiting.ask("problem", uuid)


def test_controller_is_switched_on_above_the_pod_and_nowhere_else(node: Node) -> None:
    """The files are as the kernel's; what a write to them does, a real kernel alone shows."""
    group = node.pod()
    (node.cgroups / "dmem.capacity").touch()
    cgroups.enable(node.cgroups, group)
    above = [one for one in group.parents if one.is_relative_to(node.cgroups)]
    assert {(one / "cgroup.subtree_control").read_text() for one in above} == {"+dmem"}
    assert (group / "cgroup.subtree_control").read_text() == ""
    for one in (group, *above[:-1]):
        (one / "dmem.max").touch()
        (one.parent / "cgroup.subtree_control").write_text("")
    cgroups.enable(node.cgroups, group)
    assert {(one / "cgroup.subtree_control").read_text() for one in above} == {""}


@given(st.uuids().map(str))
def test_candidates_are_what_processes_of_the_pod_are_found_by(uid: str) -> None:
    found = list(cgroups.candidates(uid))
    assert len(set(found)) == len(found) == 12
    assert {pods.uid_of(f"0::/{one}/cri-containerd-x.scope") for one in found} == {uid}
