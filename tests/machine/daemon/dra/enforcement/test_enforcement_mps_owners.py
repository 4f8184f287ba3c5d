# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin and the DRA driver on one node: one manager, and neither takes the other's GPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin.model.mps.paths import Names
from gpu_plugin.model.mps.settings import Offer, Settings
from gpu_plugin.mps.reconciler import Reconciler
from gpu_plugin.mps.state import owner_of

from tests.fakes.dra.enforcing import share
from tests.fakes.mps.mps_running import living
from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.dra.enforcing import Enforcing
    from tests.fakes.mps.mps_running import Mps

DEFAULT, EXCLUSIVE_PROCESS = 0, 3
TURNS = 20
Enforce = Callable[..., "Enforcing"]


class Units:
    """The device plugin's: it starts the same manager, or finds it there."""

    def __init__(self, node: Mps) -> None:
        self.node, self.closed = node, -1

    def run(self) -> None:
        self.node.manage()

    def close(self, manager: int) -> None:
        self.closed = manager


class Plugin:
    """The device plugin's side."""

    def __init__(self, node: Mps) -> None:
        self.node, self.units = node, Units(node)
        self.reconciler = Reconciler(node.settings, self.units)

    def want(self, *gpus: int) -> None:
        offers = {self.node.uuid(gpu): self._offer(gpu) for gpu in gpus}
        self.reconciler.want(offers, str(self.node.root))

    def _offer(self, gpu: int) -> Offer:
        root = str(self.node.root)
        settings = Settings(4, root=root)
        shares = settings.shares(81559 << 20, (9, 0))
        return Offer(Names(self.node.uuid(gpu), root), settings, shares)

    def ready(self, gpu: int) -> bool:
        self.reconciler.tick()
        settled = self.node.status(self.node.uuid(gpu))["state"] == "ready"
        return settled and self.node.uuid(gpu) not in self.reconciler.problems()


@pytest.fixture
def plugin(node: Mps) -> Plugin:
    return Plugin(node)


def test_each_keeps_what_is_its_own(node: Mps, enforce: Enforce, plugin: Plugin) -> None:
    dra, claimed = enforce(), share(node.sim, gpu=1)
    plugin.want(0)
    eventually(lambda: plugin.ready(0))
    dra.ask("prepare", claimed)
    manager = node.status(node.uuid(1))["pid"]
    assert manager == node.status(node.uuid(0))["pid"]  # one manager
    for _again in range(5):  # each looks, and changes what it wants
        plugin.want()
        plugin.want(0)
        dra.ask("tick")
        asked = node.asked(node.uuid(1))
        eventually(lambda asked=asked: node.asked(node.uuid(1)) > asked)
    daemon = node.status(node.uuid(1))["daemon"]
    assert living(daemon)
    plugin.want()
    eventually(lambda: node.mode(0) == DEFAULT)
    assert [path.name for path in node.settings.glob("*.settings.json")] == [
        f"{node.uuid(1)}.settings.json"
    ]
    assert node.uuid(1) not in plugin.reconciler.problems()
    plugin.want(0)
    eventually(lambda: plugin.ready(0))
    dra.ask("unprepare", claimed)
    eventually(lambda: not living(daemon))
    eventually(lambda: plugin.ready(0))
    assert node.mode(0) == EXCLUSIVE_PROCESS


def test_a_gpu_of_the_other_is_refused_until_it_is_free(
    node: Mps, enforce: Enforce, plugin: Plugin
) -> None:
    dra, claimed = enforce(), share(node.sim)
    uuid = claimed["gpu_uuid"]
    dra.ask("prepare", claimed)
    daemon = node.status(uuid)["daemon"]
    plugin.want(0)
    assert plugin.reconciler.problems() == {uuid: "the DRA driver has it shared by MPS"}
    unchanged(lambda: node.status(uuid)["daemon"], daemon, lambda: node.asked(uuid))
    assert node.status(uuid)["settings"]["owner"] == "dra"
    dra.ask("unprepare", claimed)
    eventually(lambda: plugin.ready(0))
    with pytest.raises(RuntimeError, match="the device plugin has it shared by MPS"):
        enforce(patience=0.5).ask("prepare", claimed)
    assert plugin.ready(0)


def test_plugin_that_ends_leaves_the_manager_to_the_other(
    node: Mps, enforce: Enforce, plugin: Plugin
) -> None:
    dra, claimed = enforce(), share(node.sim, gpu=1)
    plugin.want(0)
    eventually(lambda: plugin.ready(0))
    dra.ask("prepare", claimed)
    plugin.reconciler.close()
    assert plugin.units.closed == -1  # not asked for, as one that is its child would end too
    dra.ask("unprepare", claimed)
    plugin.reconciler.close()
    assert plugin.units.closed == node.status(node.uuid(0))["pid"]


def test_both_at_once_lose_nothing(node: Mps, enforce: Enforce, plugin: Plugin) -> None:
    """Each changes its mind time and again while the other does, and one GPU of each is wanted throughout."""
    dra, stays = enforce(), share(node.sim, "stays", gpu=1)
    plugin.want(0)
    eventually(lambda: plugin.ready(0))
    dra.ask("prepare", stays)
    daemons = [node.status(node.uuid(gpu))["daemon"] for gpu in (0, 1)]
    plugins, done = [0], threading.Event()

    def plugins_turns() -> None:
        while not done.is_set():
            plugin.want(0, 1)  # which the claims' driver has
            plugin.want(0)
            plugins[0] += 1

    thread = threading.Thread(target=plugins_turns)
    thread.start()
    try:
        turns = 0
        while min(turns, plugins[0]) < TURNS:
            dra.ask("prepare", share(node.sim, f"c{turns}", gpu=1))
            dra.ask("restore", stays)  # the others' claims are gone
            turns += 1
    finally:
        done.set()
        thread.join()
    assert [node.status(node.uuid(gpu))["daemon"] for gpu in (0, 1)] == daemons
    assert all(map(living, daemons))
    owners = {path.name: owner_of(path) for path in node.settings.glob("*.settings.json")}
    assert owners == {
        f"{node.uuid(0)}.settings.json": "device_plugin",
        f"{node.uuid(1)}.settings.json": "dra",
    }
    assert "have a manager already" not in node.log.read_text()


def test_what_became_the_others_meanwhile_is_not_removed(tmp_path: Path) -> None:
    """Between the look and the deed another process writes the file."""
    folder = tmp_path / "s"
    folder.mkdir()
    folder.chmod(0o755)
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    path = folder / f"{uuid}.settings.json"
    path.write_text(Settings(4, root=str(tmp_path)).to_json())

    class Racing(Reconciler):
        def _settle(self, device: str, known: Settings | None) -> None:
            path.write_text(Settings(1, root=str(tmp_path), owner="dra").to_json())
            super()._settle(device, known)

    class Nobody:
        def run(self) -> None:
            pass

        def close(self, manager: int) -> None:
            pass

    Racing(folder, Nobody()).want({}, str(tmp_path))
    assert path.exists()
    assert os.path.getsize(path)
