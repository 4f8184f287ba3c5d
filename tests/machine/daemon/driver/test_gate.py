# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that were not accepted are given to nobody, from the first registration on and over restarts and boots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.gpu.node.plugins.module_utils._node.gate import PATH as GATE
from ansible_collections.gpu.node.plugins.module_utils._node.gate import (
    Gate,
    Held,
    dump_gate,
)
from gpu_plugin.boot import gate as gate_command
from gpu_plugin.driver.quarantine import QuarantineWatch

from tests.fakes.daemon.quarantined import set_aside
from tests.fakes.daemon.running import GPU
from tests.fakes.daemon.scraping import Metrics
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
NEVER = Held("not accepted: it was never tested", 1_800_000_000.0)


def put(root: Path, gate: Gate | str | None) -> None:
    """Put a gate on a node, as the module does in one step; None for none."""
    path = root / GATE.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    if gate is None:
        path.unlink()
        return
    new = path.with_suffix(".new")
    new.write_text(gate if isinstance(gate, str) else dump_gate(gate))
    new.rename(path)


def wait_for_none(node: Node, *uuids: str) -> None:
    """Wait until the kubelet knows these GPUs, none of which is healthy."""
    eventually(lambda: GPU in node.ask("resources"))
    eventually(lambda: node.health(GPU), dict.fromkeys(uuids, "Unhealthy"))


def test_gpu_is_unhealthy_until_the_gate_lets_it_in(make_node: MakeNode) -> None:
    node, metrics = make_node(2), Metrics()
    first, second = node.uuids()
    put(node.sim.root, Gate(BOOT, gpus={first: NEVER, second: NEVER}))
    node.start_kubelet()
    node.start_daemon("", "--metrics-address", metrics.address)
    wait_for_none(node, first, second)
    why = "held by the gate of gpu.node.accept: not accepted: it was never tested"
    problems = node.status()["resources"][GPU]["problems"]
    assert problems[first] == f"{why}. Way back: gpu.node.accept"
    shown = node.cli("status", "--status-file", node.status_file).stdout
    assert f"held by the gate: {first}: not accepted: it was never tested" in shown
    assert metrics.value("gpu_plugin_accepted", uuid=first) == 0
    assert metrics.value("gpu_plugin_quarantined", uuid=first) == 0
    put(node.sim.root, Gate(BOOT, gpus={second: NEVER}, open_gpus=(first,)))
    node.wait(GPU, 1)
    assert node.health(GPU) == {first: "Healthy", second: "Unhealthy"}
    eventually(lambda: metrics.value("gpu_plugin_accepted", uuid=first) == 1)
    put(node.sim.root, None)
    node.wait(GPU, 2)


def test_gate_of_another_boot_is_closed(make_node: MakeNode) -> None:
    node = make_node(1)
    put(node.sim.root, Gate("another-boot", open_gpus=tuple(node.uuids())))
    node.start_kubelet()
    node.start_daemon()
    wait_for_none(node, *node.uuids())
    put(node.sim.root, Gate(BOOT, open_gpus=tuple(node.uuids())))
    node.wait(GPU, 1)


def test_gpu_that_is_let_in_stays_in_quarantine(make_node: MakeNode) -> None:
    node = make_node(1)
    put(node.sim.root, Gate(BOOT, open_gpus=tuple(node.uuids())))
    set_aside(node.sim.root, *node.uuids())
    node.start_kubelet()
    node.start_daemon()
    wait_for_none(node, *node.uuids())
    set_aside(node.sim.root)
    node.wait(GPU, 1)


def watch(root: Path, run: Path) -> QuarantineWatch:
    found = QuarantineWatch(root, run / "quarantine.json")
    found.look()
    return found


@pytest.mark.parametrize("text", ["", "{}", "\0", "[1]"])
def test_gate_that_can_not_be_read_is_closed_unless_it_was_read_before(
    tmp_path: Path, text: str
) -> None:
    root, run = tmp_path / "root", tmp_path / "run"
    run.mkdir()
    put(root, text)
    closed = watch(root, run)
    assert closed.entries.node is not None
    assert any(chore.error for chore in closed.chores)
    put(root, Gate(BOOT, open_gpus=("GPU-a",)))
    assert watch(root, run).entries.node is None
    put(root, text)
    assert watch(root, run).entries.node is None  # as it was, by what the process before has kept


def test_node_without_a_gate_holds_nothing(tmp_path: Path) -> None:
    found = watch(tmp_path, tmp_path)
    assert (found.entries.node, found.gated) == (None, False)


@pytest.mark.parametrize(
    ("gate", "status", "line"),
    [
        (None, 0, "the node has no gate"),
        (Gate(BOOT, open_gpus=("GPU-a",)), 0, "open"),
        (Gate(BOOT, gpus={"GPU-a": NEVER}), 1, "held: GPU-a: not accepted: it was never tested"),
        (Gate(BOOT, node=Held("2 of 2 GPUs")), 1, "held: the node: 2 of 2 GPUs"),
        (Gate("another"), 1, "held: the node: not accepted: the gate was not checked since"),
    ],
)
def test_anyone_can_ask_whether_the_node_is_held(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    gate: Gate | None,
    status: int,
    line: str,
) -> None:
    if gate:
        (tmp_path / "gate.json").write_text(dump_gate(gate))
    monkeypatch.setattr("gpu_plugin._shared._accept.machine.gate.PATH", str(tmp_path / "gate.json"))
    assert gate_command.show(as_json=False) == status
    assert line in capsys.readouterr().out
    assert gate_command.show(as_json=True) == status
