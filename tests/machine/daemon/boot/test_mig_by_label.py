# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""``gpu-plugin mig-label``: what the label asks for is made, and nothing is taken from anybody."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nvsim.testing import Sim, client, start
from standin_kubelet.devices import Ledger
from standin_kubelet.pods import PodResources

from tests.fakes.daemon.label_node import LATE, LabelNode, entries, scene, slices
from tests.support.paths import FAKES

SLOW_MS = 300
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
    time.sleep(2)
    assert scene(node.sim) == before  # of the other GPU too
    assert node.chosen.read_text() == "threes\n"
    node.sim.let_go(holder)
    node.wait("seven", "success")
    assert slices(node.sim) == [[8], [8]]
    assert node.process is not None
    assert node.process.wait(LATE) == 0


def test_what_the_kubelet_gave_to_an_idle_pod_is_waited_for(
    node: LabelNode, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "checkpoint")
    kubelet = PodResources(tmp_path / "pods.sock", ledger)
    node.ask("threes")
    node.run()
    before = scene(node.sim)
    first_device = """
        n.nvmlInit()
        gpu = n.nvmlDeviceGetHandleByIndex(0)
        answer(n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)))
        """
    device = client(node.sim, first_device)
    ledger.give("idle", {"nvidia.com/mig-3g.20gb": [device]})
    kubelet.start()
    node.ask("seven")
    node.start(WITH_PODS, str(tmp_path / "pods.sock"))
    holder = f"pod default/idle (container main) with nvidia.com/mig-3g.20gb {device}"
    node.wait("seven", "pending", holder)
    time.sleep(2)
    assert scene(node.sim) == before
    ledger.take_back("idle")
    node.wait("seven", "success")
    assert slices(node.sim) == [[8], [8]]
    node.stop()
    kubelet.stop()


def test_another_layout_takes_the_place_of_one_that_waits(node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    gi = node.sim.ctl("status")["gpus"][1]["gis"][0]["id"]
    holder = node.sim.hold(1, gi, 0)
    node.ask("seven")
    node.start()
    node.wait("seven", "pending", "in use")
    node.ask("first")
    node.wait("first", "success")
    assert slices(node.sim) == [[8], [4, 4]]
    node.sim.let_go(holder)


def test_gpus_that_the_layout_does_not_name_are_left_alone(node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    before = node.sim.ctl("status")["gpus"][1]
    node.ask("first")
    node.run()
    assert slices(node.sim)[0] == [8]
    assert node.sim.ctl("status")["gpus"][1] == before


@pytest.mark.parametrize("name", ["unknown", "all-balanced", "all-disabled", "all-1g.5gb"])
def test_only_names_of_the_file_can_be_had(name: str, node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    before = scene(node.sim)
    node.ask(name)
    node.run()
    told = node.told()
    assert told["state"] == "failed"
    assert told["reason"] == (
        f"mig_config has no layout '{name}': it has first, off, seven, threes"
    )
    assert scene(node.sim) == before
    assert node.chosen.read_text() == "threes\n"


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"name": "../seven", "digest": ""}', '{"name": ["seven"], "digest": ""}', "\x00"],
)
def test_what_can_not_be_understood_changes_nothing(text: str, node: LabelNode) -> None:
    node.asked.write_text(text)
    assert "what the label asks for can't be read" in node.run()
    assert scene(node.sim) == [[], []]


def test_where_labels_may_not_choose_nothing_is_done(node: LabelNode) -> None:
    node.declare(by_label=False)
    node.ask("seven")
    node.run()
    assert node.told()["state"] == "failed"
    assert "mig_by_label is not set" in node.told()["reason"]
    assert scene(node.sim) == [[], []]


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


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_killed_between_two_steps_the_next_run_finishes(changes: int, node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    for function in ("CreateGpuInstanceWithPlacement", "CreateComputeInstance"):
        node.sim.ctl("delay", function=f"nvmlDevice{function}", ms=SLOW_MS)
    node.ask("seven")
    node.start()
    seen, last = 0, scene(node.sim)
    deadline = time.monotonic() + LATE
    while seen < changes and time.monotonic() < deadline:
        now = scene(node.sim)
        seen, last = seen + (now != last), now
        time.sleep(0.005)
    node.stop()
    # A genuine call that has begun ends before its killed process does, and the lock goes with that.
    time.sleep(2 * SLOW_MS / 1000)
    assert node.told()["state"] == "pending"
    assert node.chosen.read_text() == "threes\n"
    node.run()
    assert slices(node.sim) == [[8], [8]]
    assert node.told()["state"] == "success"


def test_a_choice_that_is_given_up_changes_no_gpu(node: LabelNode) -> None:
    node.ask("threes")
    node.run()
    before = scene(node.sim)
    node.ask("")
    node.run()
    assert scene(node.sim) == before
    assert not node.chosen.exists()
    assert node.told()["state"] == ""


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


def test_a_driver_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    with start("a100-40", 1, driver=None) as sim:
        node = LabelNode(sim, tmp_path)
        node.ask("seven")
        node.start()
        node.wait("seven", "pending", "not loaded")
        sim.ctl("load", version="550.163.01", flavour="open")
        node.wait("seven", "success")
        node.stop()
