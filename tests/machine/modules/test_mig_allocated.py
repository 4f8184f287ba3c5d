# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.mig spares what the kubelet has given to pods, on the simulated driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.dra.checkpoint import (
    PREPARED,
    Device,
    Instance,
    PreparedClaim,
    dump,
    entry,
)
from nvsim.testing import Sim

from tests.machine.modules.mig_scene import THREE, config, layout
from tests.support import helper_process
from tests.support.waiting import LIMIT, eventually

PROGRAM = Path(__file__).parent / "mig_with_pods.py"
WHOLE = {"7g.40gb": 1}


class NodeWithPods:
    """A node with simulated GPUs, and with what its kubelet says."""

    def __init__(self, sim: Sim, folder: Path) -> None:
        self.sim, self._folder = sim, folder
        self._answer = folder / "pods.json"
        self.give()

    def give(self, *devices: str, resource: str = "nvidia.com/mig-1g.5gb") -> None:
        """Have these devices, and no others, be those of a pod."""
        pod = {"namespace": "ml", "pod": "idle", "container": "main", "resource": resource}
        given = [{**pod, "device": one} for one in devices]
        self._answer.write_text(json.dumps({"version": 1, "allocations": given}))

    def claim(self, start: int) -> None:
        """Have an instance of 1g.5gb on GPU 1 be one that was made for a claim."""
        uid = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
        instance = Instance(19, start, made=True)
        device = Device("r0", "node-1", f"gpu-1-mig-1g5gb-19-{start}", "", 1, instance=instance)
        held = PreparedClaim(uid, "ml", "part", PREPARED, (device,))
        self._answer.with_suffix(".claims").write_text(dump({uid: entry(held)}))

    def give_later(self) -> None:
        """Have what was given last be given once the kubelet was asked, and nothing before."""
        self._answer.replace(self._answer.with_suffix(".later"))
        self.give()

    def asked(self) -> int:
        """Return how often the kubelet was asked."""
        path = self._answer.with_suffix(".asked")
        return len(path.read_text().splitlines()) if path.exists() else 0

    def start(self, *, check: bool = False, **args: Any) -> subprocess.Popen[str]:
        told = {"_ansible_check_mode": check, "_ansible_diff": True, "boot": False}
        told["_ansible_remote_tmp"] = str(self._folder)
        path = self._folder / "args.json"
        path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**args, **told}}))
        return helper_process.start(
            [sys.executable, str(PROGRAM), str(path), str(self._answer)],
            env=self.sim.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            ready=helper_process.executed,
        )

    def run(self, **args: Any) -> dict[str, Any]:
        return self.ended(self.start(**args))

    @staticmethod
    def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
        out, err = process.communicate(timeout=LIMIT)
        assert out, err
        answer: dict[str, Any] = json.loads(out)
        return answer


@pytest.fixture
def node(a100: Sim, tmp_path: Path) -> NodeWithPods:
    """Return a node with three instances on GPU 1, none of which is used."""
    made = NodeWithPods(a100, tmp_path)
    assert made.run(config=config(THREE))["changed"]
    assert made.asked() > 0  # the mode was switched, for which the GPU must be nobody's
    return made


def uuid_of(node: NodeWithPods, profile: str) -> str:
    answer = node.run(config=config(THREE), check=True)
    found: list[str] = next(
        one["uuids"] for one in answer["gpus"][1]["instances"] if one["profile"] == profile
    )
    return found[0]


def test_what_changes_nothing_asks_nobody(node: NodeWithPods) -> None:
    before = node.asked()
    assert not node.run(config=config(THREE))["changed"]
    assert node.run(config=config({**THREE, "1g.5gb": 3}))["changed"]  # one is added
    assert node.asked() == before


@pytest.mark.parametrize("share", [pytest.param("", marks=pytest.mark.long), "::4"])
def test_idle_pods_keep_their_mig_devices(node: NodeWithPods, share: str) -> None:
    before, device = layout(node.sim), uuid_of(node, "1g.5gb")
    node.give(f"{device}{share}")
    words = f"pod ml/idle (container main) with nvidia.com/mig-1g.5gb {device}"
    refused = node.run(config=config(WHOLE))
    assert refused["failed"]
    assert (refused["blocked_by"], refused["refused"]) == ([words], True)
    assert f"cannot be destroyed: in use by {words}. Next step:" in refused["msg"]
    checked = node.run(config=config(WHOLE), check=True)
    assert (checked["blocked_by"], checked["refused"]) == ([words], True)
    assert "would be refused" in str(checked["warnings"])
    skipped = node.run(config=config(WHOLE), on_busy="skip")
    assert (skipped["changed"], skipped["blocked_by"]) == (False, [words])
    planned = node.run(config=config(WHOLE), on_busy="wait", check=True)
    assert planned["blocked_by"] == [words]
    assert words in str(planned["warnings"])
    assert (planned["steps"], planned["refused"]) == (checked["steps"], False)
    assert "7g.40gb" in planned["diff"]["after"]  # as the playbook shows it before it drains
    assert layout(node.sim) == before

    # What it has stays, and the others go: also where another arrangement would be as good.
    fewer = node.run(config=config({"1g.5gb": 1}))
    kept = [uuid for one in fewer["gpus"][1]["instances"] for uuid in one["uuids"]]
    assert kept == [device]
    taken = node.run(config=config(WHOLE), on_allocated="ignore")
    assert [one["profile"] for one in taken["gpus"][1]["instances"]] == ["7g.40gb"]


@pytest.mark.long
def test_pods_are_waited_for(node: NodeWithPods) -> None:
    device = uuid_of(node, "3g.20gb")
    node.give(device)
    late = node.run(config=config(WHOLE), on_busy="wait", wait_timeout=1)
    assert "after 1 s" in late["msg"]
    before = node.asked()
    process = node.start(config=config(WHOLE), on_busy="wait", wait_timeout=600)
    eventually(lambda: node.asked() > before + 1)
    node.give()
    assert node.ended(process)["changed"]
    assert [name for name, _start, _id in layout(node.sim)] == ["7g.40gb"]


def test_a_whole_gpu_that_a_pod_has_is_not_partitioned(node: NodeWithPods) -> None:
    answer = node.run(config=config(THREE), check=True)
    node.give(answer["gpus"][0]["uuid"], resource="nvidia.com/gpu")
    refused = node.run(config=config(THREE, 0, 1))
    assert "MIG mode can't be switched on" in refused["msg"]
    assert "pod ml/idle (container main) with nvidia.com/gpu" in refused["blocked_by"][0]
    assert layout(node.sim, 0) == []


def test_what_is_given_away_while_the_change_is_planned_is_seen_before_the_gpu_is_touched(
    node: NodeWithPods,
) -> None:
    before = layout(node.sim)
    node.give(uuid_of(node, "3g.20gb"))
    node.give_later()
    refused = node.run(config=config(WHOLE))
    assert "the kubelet gave it away since the change was planned" in refused["msg"]
    assert refused["changed"] is False
    assert layout(node.sim) == before


def test_what_is_not_known_is_refused_before_anything(node: NodeWithPods) -> None:
    before = layout(node.sim)
    node.give("device-7", resource="nvidia.com/gpu")  # of a plugin that nobody knows
    assert node.run(config=config(WHOLE))["failed"]
    assert layout(node.sim) == before
    assert node.run(config=config({**THREE, "1g.5gb": 3}))["changed"]


def test_an_instance_that_a_claim_holds_is_spared(node: NodeWithPods) -> None:
    """Though no pod has it yet: the kubelet does not tell of a claim before its containers are made."""
    start = next(start for name, start, _gi in layout(node.sim) if name == "1g.5gb")
    node.claim(start)
    failed = node.run(config=config(WHOLE))
    assert failed["failed"]
    assert f"claim ml/part with gpu.node gpu-1-mig-1g5gb-19-{start}" in failed["msg"]
    kept = node.run(config=config({"1g.5gb": 1}))
    assert not kept.get("failed"), kept["msg"]
    assert [start for _name, start, _gi in layout(node.sim)] == [start]
