# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin's loop, with stand-ins of the driver and the kubelet: how often a round decides, and on what."""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin import daemon
from gpu_plugin.advertise.decide import NOBODY
from gpu_plugin.config.sources import Source
from gpu_plugin.daemon import Daemon, Settings
from gpu_plugin.model.inventory import GpuView, Inventory
from gpu_plugin.model.mps import paths
from gpu_plugin.model.mps.settings import Offer
from gpu_plugin.model.topology import Topology
from gpu_plugin.mps import control, folders

from tests.fakes.clock import Clock
from tests.fakes.daemon.gpu_builders import gpu, inventory
from tests.fakes.mps.mps_builders import state

UUIDS = [f"GPU-{number}0000000-0000-0000-0000-000000000000" for number in (1, 2)]
NODE = inventory(*(GpuView(replace(gpu(n), uuid=uuid)) for n, uuid in enumerate(UUIDS)))
GPU = "nvidia.com/gpu"
MPS = "version: v1\nflags: {{mpsRoot: {}}}\nsharing: {{mps: {{resources: [{{name: gpu, replicas: 2}}]}}}}\n"
STARTS = "its MPS control daemon is about to start"


class Gpus:
    """The driver: what a test says of the GPUs, and that there are news in each round."""

    def __init__(self, *_words: object) -> None:
        self.inventory, self.topology, self.chores = NODE, Topology(), ()
        self.settings = ()

    def first_look(self, *_words: object) -> None:
        pass

    def tick(self, *_words: object, at_once: bool) -> bool:
        return True

    def faults(self) -> dict[Any, str]:
        return {}

    def unhealthy(self) -> tuple[()]:
        return ()

    def verdicts(self) -> dict[str, Any]:
        return {}


class Kubelet:
    """Handover, holders and the kubelet's edge: nobody has anything, and all is served."""

    def __init__(self, *_words: object, **_more: object) -> None:
        self.holders, self.answer, self.chores, self.folder = NOBODY, None, (), self
        self.settled, self.knows_kubelet = False, True

    def check(self, *_words: object) -> bool:
        return True

    def first_answer(self, _pause: object) -> None:
        pass

    def tick(self, **_words: object) -> bool:
        return False

    def advertised(self, *_words: object) -> None:
        pass

    def lost(self) -> bool:
        return False

    def registered(self) -> dict[str, bool]:
        return {}

    def problem(self) -> None:
        return None

    def stop(self) -> None:
        pass


class Units:
    """Who would run the manager of MPS daemons."""

    def run(self) -> None:
        pass

    def close(self, manager: int) -> None:
        pass


class Scene:
    """A daemon whose rounds a test goes through; ``decided`` counts what was decided in the last one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.decided = folder, 0
        self.root, self.run = folder / "mps-root", folder / "run"
        self.root.mkdir()
        self.config = folder / "config.yaml"
        self.config.write_text("")
        self.shared = MPS.format(self.root)
        options = argparse.Namespace(config=str(self.config))
        socket = folder / "kubelet/device-plugins/kubelet.sock"
        settings = Settings(socket, self.run / "status.json", folder, quiet=0.0)
        self.daemon = Daemon(settings, Source(options, {}))

    def round(self) -> int:
        """Go round once. Returns how often it was decided."""
        self.decided = 0
        self.daemon.round()
        return self.decided

    def reload(self, text: str) -> int:
        """Go round once with another configuration."""
        self.config.write_text(text)
        self.daemon.signals.add(signal.SIGHUP)
        return self.round()

    def begin(self) -> None:
        """Start; what is taken at the start has been judged then."""
        assert self.daemon.begin() == 0

    @property
    def problems(self) -> dict[str, str]:
        """Why devices are Unhealthy, as the status says."""
        found: dict[str, Any] = json.loads((self.run / "status.json").read_text())
        return dict(found["resources"][GPU]["problems"])

    def ready(self, offers: Sequence[Offer]) -> None:
        """Let the manager have a daemon ready for each of these."""
        for one in offers:
            told = {**state(one), "pid": os.getpid()}
            (self.root / f"{one.names.device}.json").write_text(json.dumps(told))


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    still = partial(daemon.InForce, clock=Clock().time)  # no time passes until a file has settled
    monkeypatch.setattr(daemon, "InForce", still)
    monkeypatch.setattr(daemon, "GpuWatch", Gpus)
    for name in ("Handover", "HolderWatch", "Manager"):
        monkeypatch.setattr(daemon, name, Kubelet)
    monkeypatch.setattr(daemon.units, "choose", lambda *_words: Units())
    monkeypatch.setattr(folders, "refusal", lambda _root: "")  # others may write above the test's
    monkeypatch.setattr(paths, "LONGEST_SOCKET", 1000)
    monkeypatch.setattr(control, "has_multi_user", lambda: False)  # it starts the program
    mask = os.umask(0o022)
    made = Scene(tmp_path)
    decide: Callable[..., Any] = daemon.decide

    def counted(*words: Any, **more: Any) -> Any:
        made.decided += 1
        return decide(*words, **more)

    monkeypatch.setattr(daemon, "decide", counted)
    yield made
    os.umask(mask)


def test_a_round_with_news_decides_once(scene: Scene) -> None:
    scene.begin()
    assert [scene.round() for _time in range(3)] == [1, 1, 1]
    assert scene.problems == {}


def test_a_round_in_which_mps_has_news_decides_once(scene: Scene) -> None:
    scene.config.write_text(scene.shared)
    scene.daemon.signals.add(signal.SIGHUP)
    scene.begin()
    assert scene.problems == dict.fromkeys(UUIDS, STARTS)  # in the round in which it is asked for
    scene.ready(list(scene.daemon._advertised.mps.values()))
    assert scene.round() == 1
    assert scene.problems == {}


def test_a_configuration_on_disk_is_decided_for_once_more_to_refuse_it(scene: Scene) -> None:
    scene.begin()
    assert scene.reload(scene.shared) == 2
    assert scene.problems == dict.fromkeys(UUIDS, STARTS)
    assert scene.round() == 1


def test_nothing_is_decided_for_a_configuration_while_there_is_no_driver(scene: Scene) -> None:
    scene.daemon._gpus.inventory = Inventory("", absent="the NVIDIA driver is not loaded")
    scene.begin()
    assert scene.round() == 1
