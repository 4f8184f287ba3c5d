# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin gate slurm``, with a scontrol that replays what the genuine one said."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin import cli
from gpu_plugin._shared._accept.gate import GateConfig, dump_config
from gpu_plugin._shared._accept.machine import gate as gate_file
from gpu_plugin._shared._node.gate import NOT_CHECKED, Gate, Held, dump_gate
from gpu_plugin._shared._node.machine.facts import BOOT_ID
from gpu_plugin.boot import slurm

from tests.fakes.slurm.scontrol import HANGS, NOT_ROOT, SILENT
from tests.support.paths import FAKES

NAME = "node-1"
UUID = "GPU-95e6a220-1beb-509e-91d7-1883936021f7"
NEVER = "not accepted: it was never tested"
OURS = f"gpu.node acceptance: GPU {UUID}: {NEVER}"
BOOT = Path(BOOT_ID).read_text("utf-8").strip()
OPEN = Gate(BOOT, open_gpus=(UUID,))
CLOSED = Gate(BOOT, gpus={UUID: Held(NEVER)})


class Cluster:
    """A node whose gate is in files of the test, and Slurm with that node."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._nodes = folder / "nodes.json"
        self.gate, self.config = folder / "gate.json", folder / "config.json"
        monkeypatch.setattr(gate_file, "PATH", str(self.gate))
        monkeypatch.setattr(gate_file, "CONFIG", str(self.config))
        monkeypatch.setattr(gate_file, "LOCK", str(folder / "locks/gate.lock"))
        self.scontrol = folder / "scontrol"
        program = shutil.copy(FAKES / "slurm/scontrol.py", folder / "scontrol.py")
        self.scontrol.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
        self.scontrol.chmod(0o755)

    def check(self, gate: Gate | None, *options: str, **node: Any) -> tuple[int, list[str]]:
        """Run the command; return its exit status and the updates of the node."""
        if gate is None:
            self.gate.unlink(missing_ok=True)
        else:
            self.gate.write_text(dump_gate(gate))
        before = {"states": ["IDLE"], "reason": "", "updates": [], **node}
        self._nodes.write_text(json.dumps({NAME: before}))
        return self.again(*options)

    def again(self, *options: str) -> tuple[int, list[str]]:
        """Run the command on the node as it is."""
        status = cli.main(["gate", "slurm", "--scontrol", str(self.scontrol), *options])
        updates = [
            f"{update['State']} {update.get('Reason', '')}".strip()
            for update in self.node["updates"]
        ]
        return status, updates

    @property
    def node(self) -> dict[str, Any]:
        """The node in Slurm."""
        node: dict[str, Any] = json.loads(self._nodes.read_text())[NAME]
        return node


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose slurmd has started the command."""
    monkeypatch.setenv("SLURMD_NODENAME", NAME)
    return Cluster(tmp_path, monkeypatch)


def test_held_node_is_drained_once_and_given_back_when_its_gate_opens(cluster: Cluster) -> None:
    assert cluster.check(CLOSED) == (0, [f"DRAIN {OURS}"])
    assert cluster.again() == (0, [f"DRAIN {OURS}"])
    cluster.gate.write_text(dump_gate(OPEN))
    assert cluster.again() == (0, [f"DRAIN {OURS}", "UNDRAIN"])
    assert cluster.node["states"] == ["IDLE"]
    assert cluster.again() == (0, [f"DRAIN {OURS}", "UNDRAIN"])


@pytest.mark.parametrize(
    "state", ["UNKNOWN+NOT_RESPONDING", "DOWN*", "MIXED", "ALLOCATED", "IDLE*"]
)
def test_node_of_any_state_is_drained(cluster: Cluster, state: str) -> None:
    assert cluster.check(CLOSED, states=[state]) == (0, [f"DRAIN {OURS}"])


@pytest.mark.parametrize("gate", [OPEN, CLOSED])
@pytest.mark.parametrize("reason", ["bad memory", "gpu.node: maintenance", "Prolog error", ""])
@pytest.mark.parametrize("state", ["IDLE+DRAIN", "ALLOCATED*+DRAIN", "DOWN+DRAIN+NOT_RESPONDING"])
def test_drain_of_somebody_else_stays_as_it_is(
    cluster: Cluster, gate: Gate, reason: str, state: str
) -> None:
    assert cluster.check(gate, states=[state], reason=reason) == (0, [])


@pytest.mark.parametrize(
    "node",
    [
        {"states": ["IDLE"], "reason": OURS},  # which Slurm keeps after a resume
        {"states": ["DOWN"], "reason": OURS},
        {"states": ["IDLE+DRAIN"], "reason": f"see {OURS}"},
        {"states": ["IDLE+DRAIN"], "reason": "x", "comment": f"Reason={OURS}"},
        {"states": ["IDLE+DRAIN"], "reason": f"x\n          Reason={OURS}"},
        {"states": ["IDLE"], "reason": f"{OURS}\n          State=IDLE+DRAIN"},
    ],
)
def test_only_a_drain_for_the_gate_is_ended(cluster: Cluster, node: dict[str, Any]) -> None:
    assert cluster.check(OPEN, **node) == (0, [])


def test_reason_follows_what_is_held(cluster: Cluster) -> None:
    stale = {"states": ["IDLE+DRAIN"], "reason": "gpu.node acceptance: not accepted yet"}
    assert cluster.check(CLOSED, **stale) == (0, [f"DRAIN {OURS}"])
    assert cluster.again() == (0, [f"DRAIN {OURS}"])


def test_node_without_a_gate_is_not_drained_and_is_given_back(cluster: Cluster) -> None:
    assert cluster.check(None) == (0, [])
    assert cluster.check(None, states=["IDLE+DRAIN"], reason=OURS) == (0, ["UNDRAIN"])


def test_gate_that_was_not_checked_since_the_boot_is_checked(cluster: Cluster) -> None:
    cluster.config.write_text(dump_config(GateConfig()))
    for gate in (OPEN._replace(boot="boot-0"), None):
        status, (update,) = cluster.check(gate)
        assert status == 0
        assert update.startswith("DRAIN gpu.node acceptance: not accepted: its GPUs can't be read")
        assert json.loads(cluster.gate.read_text())["boot"] == BOOT


def test_gate_that_can_not_be_checked_is_closed(cluster: Cluster) -> None:
    update = f"DRAIN gpu.node acceptance: {NOT_CHECKED}"
    assert cluster.check(OPEN._replace(boot="boot-0")) == (0, [update])
    cluster.check(CLOSED)
    cluster.gate.write_text("{")
    status, updates = cluster.again()
    assert status == 0
    assert f"{cluster.gate.name} is damaged" in updates[-1]


def test_slurmctld_that_does_not_answer_is_asked_again(cluster: Cluster) -> None:
    assert cluster.check(CLOSED, refusals={"show": [SILENT, SILENT]}) == (0, [f"DRAIN {OURS}"])


@pytest.mark.parametrize(
    ("refusals", "text"),
    [
        ({"show": [SILENT] * 99}, "scontrol show node failed for node-1: slurm_load_node error: "),
        ({"show": [HANGS] * 99}, "scontrol show node failed for node-1: it takes too long"),
        (
            {"update": [NOT_ROOT]},
            "scontrol update with State=DRAIN failed for node-1: slurm_update",
        ),
        ({"update": [HANGS]}, "scontrol update with State=DRAIN failed for node-1: it takes too"),
    ],
)
def test_drain_that_fails_says_why_in_time(
    cluster: Cluster,
    refusals: dict[str, list[str]],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(slurm, "SECONDS", 1.0)
    monkeypatch.setattr(slurm, "SCONTROL_SECONDS", 0.6)
    assert cluster.check(CLOSED, refusals=refusals) == (1, [])
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gpu-9", "ALL", "node-[1-9]"])
def test_name_that_is_not_of_one_node_is_refused(
    cluster: Cluster, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.check(CLOSED, "--node", name) == (1, [])
    told = capsys.readouterr().err
    assert f"Node {name} not found" in told
    assert "give the node's name in slurm.conf by --node" in told


def test_answer_for_several_nodes_changes_none(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.scontrol.write_text("#!/bin/sh\necho 'NodeName=a'; echo 'NodeName=b'\n")
    assert cluster.check(CLOSED) == (1, [])
    assert "scontrol show node node-1 does not show one node: it shows a, b" in (
        capsys.readouterr().err
    )


def test_program_that_is_missing_is_said(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.scontrol.unlink()
    assert cluster.check(CLOSED) == (1, [])
    assert f"{cluster.scontrol} is not installed" in capsys.readouterr().err


def test_gate_that_closes_meanwhile_keeps_the_node_drained(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    show: Callable[[slurm.Scontrol], slurm.SlurmNode] = slurm.Scontrol.show

    def closing(scontrol: slurm.Scontrol) -> slurm.SlurmNode:
        cluster.gate.write_text(dump_gate(CLOSED))
        return show(scontrol)

    monkeypatch.setattr(slurm.Scontrol, "show", closing)
    assert cluster.check(OPEN, states=["IDLE+DRAIN"], reason=OURS) == (0, [])


def test_name_of_the_host_is_the_node_s(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURMD_NODENAME")
    monkeypatch.setattr("socket.gethostname", lambda: f"{NAME}.example.com")
    assert cluster.check(CLOSED) == (0, [f"DRAIN {OURS}"])
