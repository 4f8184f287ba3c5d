# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mig-label``: what the label asks for is made, and nothing is taken from anybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nvsim.testing import VERSION, Sim, client, start

from tests.fakes.daemon.label_node import LabelNode, entries, scene, slices
from tests.support.paths import FAKES
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.machine.daemon.boot.conftest import Kubelet

WITH_PODS = str(FAKES / "daemon/label_with_pods.py")


@pytest.fixture
def sim() -> Iterator[Sim]:
    """Two A100, whose driver is loaded."""
    with start("a100-40", 2) as found:
        yield found


@pytest.fixture
def node(sim: Sim, tmp_path: Path) -> Iterator[LabelNode]:
    """A node where labels may choose."""
    one = LabelNode(sim, tmp_path)
    yield one
    one.stop()


def test_a_layout_that_is_asked_for_is_made(node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    assert slices(node.sim) == [[4, 4], [4, 4]]
    told = node.told()
    assert (told["state"], told["reason"], told["asked"]["name"]) == ("success", "", "threes")
    assert node.chosen.read_text() == "threes\n"
    # CDI's path unit waits for this file, and 'gpu-plugin status' shows it.
    assert json.loads(node.status.read_text())["selected"] == "threes"
    before = node.sim.ctl("status")["gpus"]
    node.run()
    assert node.sim.ctl("status")["gpus"] == before


def test_what_is_in_use_is_waited_for(node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    before = scene(node.sim)
    gi = node.sim.ctl("status")["gpus"][1]["gis"][0]["id"]
    holder = node.sim.hold(1, gi, 0)
    node.ask("seven")
    node.start()
    node.wait("seven", "pending", f"in use by process {holder.pid}")
    unchanged(lambda: scene(node.sim), before, node.tries)  # of the other GPU too
    assert node.chosen.read_text() == "threes\n"
    node.sim.let_go(holder)
    node.wait("seven", "success")
    assert slices(node.sim) == [[8], [8]]
    node.ended()


def test_what_the_kubelet_gave_to_an_idle_pod_is_waited_for(
    node: LabelNode, kubelet: Kubelet
) -> None:
    node.ask("threes")
    node.run()
    before = scene(node.sim)
    device = node.sim.ctl("status")["gpus"][0]["mig_devices"][0]["uuid"]
    kubelet.ledger.give("idle", {"nvidia.com/mig-3g.20gb": [device]})
    kubelet.service.start()
    node.ask("seven")
    node.start(WITH_PODS, str(kubelet.socket))
    holder = f"pod default/idle (container main) with nvidia.com/mig-3g.20gb {device}"
    node.wait("seven", "pending", holder)
    unchanged(lambda: scene(node.sim), before, node.tries)
    kubelet.ledger.take_back("idle")
    node.wait("seven", "success")
    assert slices(node.sim) == [[8], [8]]


def test_another_layout_takes_the_place_of_one_that_waits(node: LabelNode) -> None:
    """It names the first GPU, so that the other one, which is in use, is left alone."""
    node.ask("threes")
    node.run()
    gi = node.sim.ctl("status")["gpus"][1]["gis"][0]["id"]
    holder = node.sim.hold(1, gi, 0)
    other = node.sim.ctl("status")["gpus"][1]
    node.ask("seven")
    node.start()
    node.wait("seven", "pending", "in use")
    node.ask("first")
    node.wait("first", "success")
    assert slices(node.sim) == [[8], [4, 4]]
    assert node.sim.ctl("status")["gpus"][1] == other
    node.sim.let_go(holder)


def test_a_layout_that_does_not_fit_fails_before_the_first_change(node: LabelNode) -> None:
    node.declare(wrong=[*entries({"3g.20gb": 2}, [0]), *entries({"3g.20gb": 3}, [1])])
    node.ask("wrong")
    node.run()
    assert node.told()["state"] == "failed"
    assert "3 x 3g.20gb do not fit" in node.told()["reason"]
    assert scene(node.sim) == [[], []]


def test_a_change_that_fails_gives_the_layout_back(node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    before = slices(node.sim)
    function = "nvmlDeviceCreateGpuInstanceWithPlacement"
    node.sim.ctl("fault", gpu="0", function=function, code=999, nth=1, times=1)
    node.ask("seven")
    node.run()
    assert node.told()["state"] == "failed"
    assert "its previous layout was restored" in node.told()["reason"]
    assert slices(node.sim) == before
    assert node.chosen.read_text() == "threes\n"


FIRST = "nvmlDeviceCreateGpuInstanceWithPlacement"
OTHERS = ("nvmlGpuInstanceDestroy", "nvmlGpuInstanceCreateComputeInstanceWithPlacement")


@pytest.mark.parametrize(
    "function", [FIRST, *(pytest.param(one, marks=pytest.mark.long) for one in OTHERS)]
)
def test_killed_between_two_steps_the_next_run_finishes(function: str, node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    node.sim.ctl("hang", function=function)
    node.ask("seven")
    node.start()
    eventually(lambda: function in {name for name, _gpu in node.sim.ctl("waiting")})
    assert node.process is not None
    pid = node.process.pid
    node.stop()
    node.sim.ctl("clear-faults")
    # A call that has begun ends after its process does.
    eventually(lambda: function in node.sim.ctl("answered", pid=pid))
    assert node.told()["state"] == "pending"
    assert node.chosen.read_text() == "threes\n"
    node.run()
    assert slices(node.sim) == [[8], [8]]
    assert node.told()["state"] == "success"


def test_the_choice_survives_a_reboot(node: LabelNode) -> None:
    node.declare("seven")
    node.ask("threes")
    node.run()
    node.sim.ctl("reboot")
    assert "chose threes, which counts and not seven" in node.boot()
    assert slices(node.sim) == [[4, 4], [4, 4]]
    # What is not there any more counts no longer, nor does anything where labels may not choose.
    node.chosen.write_text("gone\n")
    assert "mig_config has no layout 'gone'" in node.boot()
    assert slices(node.sim) == [[8], [8]]
    node.chosen.write_text("threes\n")
    node.declare("seven", by_label=False)
    node.boot()
    assert slices(node.sim) == [[8], [8]]


@pytest.mark.long
def test_before_a_label_asks_nothing_is_made_at_boot(node: LabelNode) -> None:
    node.boot()
    assert json.loads(node.status.read_text())["state"] == "converged"
    assert scene(node.sim) == [[], []]


def test_a_mode_that_waits_for_a_reset_is_pending_and_made_at_the_next_boot(
    node: LabelNode,
) -> None:
    holder = node.sim.hold(0)
    client(node.sim, "n.nvmlInit(); n.nvmlDeviceSetMigMode(n.nvmlDeviceGetHandleByIndex(0), 1)")
    node.ask("first")
    node.start()
    node.wait("first", "pending", "waits for a reset of the GPU or a reboot")
    assert node.chosen.read_text() == "first\n"
    node.stop()
    node.sim.let_go(holder)
    node.sim.ctl("reboot")
    node.boot()
    assert slices(node.sim)[0] == [8]


def test_a_driver_that_is_not_there_is_waited_for(node: LabelNode) -> None:
    node.sim.ctl("unload")
    node.ask("seven")
    node.start()
    node.wait("seven", "pending", "not loaded")
    node.sim.ctl("load", version=VERSION, flavour="open")
    node.wait("seven", "success")
