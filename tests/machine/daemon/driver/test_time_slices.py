# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The time slice of shared GPUs, set through nvidia-smi."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.advertise.decide import describe_sharing, time_slices
from gpu_plugin.config.configuration import parse
from gpu_plugin.config.sharing import Sharing
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.driver.time_slices import LONGEST_PAUSE, TimeSlices
from gpu_plugin.model.inventory import Inventory
from nvsim import genuine
from nvsim.testing import start

from tests.fakes.daemon.gpu_builders import device, enumerate_devices, inventory, share, view

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode

GPU = "nvidia.com/gpu"


def sharing(name: str = GPU, time_slice: object = "short", **more: object) -> Sharing:
    entry = {"name": name, "replicas": 2, "timeSlice": time_slice, **more}
    return parse(json.dumps({"sharing": {"timeSlicing": {"resources": [entry]}}})).sharing


class Program:
    """Notes how it is called."""

    def __init__(self, folder: Path, status: int = 0) -> None:
        self.path, self.asked, self._read = folder / "nvidia-smi", folder / "asked", 0
        self.becomes(status)

    def becomes(self, status: int) -> None:
        """Let it end with a status from now on."""
        self.path.write_text(f'#!/bin/sh\necho "$@" >> {self.asked}\necho no; exit {status}\n')
        self.path.chmod(0o755)

    def calls(self) -> list[str]:
        """Return the calls since the last look. The file stays: a call may come while it is read."""
        calls = self.asked.read_text().splitlines() if self.asked.exists() else []
        fresh, self._read = calls[self._read :], len(calls)
        return fresh


def test_only_what_an_entry_names(tmp_path: Path) -> None:
    node = {GPU: tuple(device(index) for index in range(3))}
    assert time_slices(share(node, sharing(devices=[0, 2]))) == {"GPU-0": "short", "GPU-2": "short"}
    assert time_slices(share(node, Sharing())) == {}
    broken = {GPU: (device(0, problem="XID 79"),)}
    assert time_slices(share(broken, sharing())) == {"GPU-0": "short"}  # it may come back


@pytest.mark.parametrize("value", ["tiny", 1, True])
def test_values_are_the_drivers(value: object) -> None:
    with pytest.raises(ConfigError, match="one of default, short, medium, long"):
        sharing(time_slice=value)


def test_mig_devices_have_none_which_is_said() -> None:
    node = enumerate_devices(inventory(view(0, "1g.10gb")), "mixed")
    asked = sharing("nvidia.com/mig-1g.10gb")
    assert time_slices(share(node, asked)) == {}
    assert list(describe_sharing(node, asked)) == [
        "timeSlice has no effect on nvidia.com/mig-1g.10gb: MIG devices have none"
    ]


def node(*gpus: int, load: int = 1, absences: int = 0) -> Inventory:
    """An inventory with these GPUs, four by default, under a load of the driver."""
    views = (view(index) for index in gpus or range(4))
    return replace(inventory(*views), generation=(absences, load, 8))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_is_set_once_and_given_back(tmp_path: Path) -> None:
    program = Program(tmp_path)
    slices = TimeSlices(tmp_path, program=str(program.path))
    for absences in range(2):  # that the driver was away is not another load of it
        slices.want({"GPU-0": "long", "GPU-1": "long", "GPU-2": "short"}, node(absences=absences))
    assert program.calls() == [
        "compute-policy -i GPU-2 --set-timeslice 1",
        "compute-policy -i GPU-0,GPU-1 --set-timeslice 3",
    ]
    slices.want({"GPU-0": "long", "GPU-1": "medium"}, node())
    assert program.calls() == [
        "compute-policy -i GPU-2 --set-timeslice 0",
        "compute-policy -i GPU-1 --set-timeslice 2",
    ]
    slices.want({"GPU-0": "long"}, node(load=2))  # another load of the driver has forgotten all
    assert program.calls() == ["compute-policy -i GPU-0 --set-timeslice 3"]


def test_what_failed_is_tried_again_and_later_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, clock = Program(tmp_path, 3), Clock()
    slices = TimeSlices(tmp_path, program=str(program.path), clock=clock)
    calls = []
    for _second in range(600):
        clock.now += 1
        slices.chore.run({"GPU-0": "long"}, node())
        calls.append(len(program.calls()))
    told = capsys.readouterr().err
    assert told.count("the time slice can't be set") == 1
    assert slices.chore.error == "long for GPU-0: no"
    assert 5 <= sum(calls) <= 9  # after about 5, 10, 20 seconds and so on
    program.becomes(0)
    clock.now += LONGEST_PAUSE
    slices.chore.run({"GPU-0": "long"}, node())
    assert slices.chore.error is None
    slices.chore.run({"GPU-0": "medium"}, node())
    assert program.calls() == [
        "compute-policy -i GPU-0 --set-timeslice 3",
        "compute-policy -i GPU-0 --set-timeslice 2",
    ]


def test_something_else_that_is_asked_for_is_tried_at_once(tmp_path: Path) -> None:
    program, clock = Program(tmp_path, 3), Clock()
    slices = TimeSlices(tmp_path, program=str(program.path), clock=clock)
    for name in ("long", "medium", "medium"):
        slices.chore.run({"GPU-0": name}, node())
    assert len(program.calls()) == 2
    slices.chore.run({}, node())  # it was refused, so there is nothing to give back
    assert slices.chore.error is None
    assert program.calls() == []


def test_a_program_that_was_killed_may_have_set_it(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.path.write_text("#!/bin/sh\nkill -9 $$\n")
    first = TimeSlices(tmp_path, program=str(program.path))
    first.chore.run({"GPU-0": "long"}, node())
    assert first.chore.error == "long for GPU-0: "
    program.becomes(0)
    TimeSlices(tmp_path, program=str(program.path)).want({}, node())
    assert program.calls() == ["compute-policy -i GPU-0 --set-timeslice 0"]


def test_a_gpu_that_is_refused_holds_back_itself_only(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.path.write_text(
        f'#!/bin/sh\necho "$@" >> {program.asked}\ncase "$3" in *GPU-1*) echo busy; exit 5;; esac\n'
    )
    slices = TimeSlices(tmp_path, program=str(program.path))
    slices.chore.run({f"GPU-{index}": "long" for index in range(3)}, node())
    assert slices.chore.error == "long for GPU-1: busy"
    assert [call.split()[2] for call in program.calls()] == [
        *("GPU-0,GPU-1,GPU-2", "GPU-0", "GPU-1", "GPU-2")
    ]
    for _round in range(3):  # within the pause
        slices.chore.run({f"GPU-{index}": "long" for index in range(3)}, node())
    assert program.calls() == []


def test_a_default_that_is_asked_for_is_set_once_too(tmp_path: Path) -> None:
    program = Program(tmp_path)
    slices = TimeSlices(tmp_path, program=str(program.path))
    for _round in range(3):
        slices.want({"GPU-0": "default"}, node())
    assert program.calls() == ["compute-policy -i GPU-0 --set-timeslice 0"]


def test_what_an_earlier_process_set_is_given_back(tmp_path: Path) -> None:
    program = Program(tmp_path)
    TimeSlices(tmp_path, program=str(program.path)).want({"GPU-0": "long"}, node(absences=3))
    program.calls()
    second = TimeSlices(tmp_path, program=str(program.path))
    second.want({"GPU-0": "long"}, node())  # as it is
    assert program.calls() == []
    TimeSlices(tmp_path, program=str(program.path)).want({}, node())
    assert program.calls() == ["compute-policy -i GPU-0 --set-timeslice 0"]
    TimeSlices(tmp_path, program=str(program.path)).want({}, node())
    assert program.calls() == []


@pytest.mark.parametrize("change", ["load", "boot", "gone"])
def test_what_the_driver_has_forgotten_is_not_given_back(tmp_path: Path, change: str) -> None:
    program = Program(tmp_path)
    TimeSlices(tmp_path, program=str(program.path)).want({"GPU-0": "long"}, node())
    program.calls()
    if change == "boot":
        boot = tmp_path / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("another\n")
    now = node(load=2) if change == "load" else node(1) if change == "gone" else node()
    TimeSlices(tmp_path, tmp_path, str(program.path)).want({}, now)
    assert program.calls() == []


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 9}', '{"slices'])
def test_a_damaged_file_is_left_aside_with_a_word(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Program(tmp_path)
    (tmp_path / "time_slices.json").write_text(text)
    slices = TimeSlices(tmp_path, program=str(program.path))
    assert "which time slices were set is not known" in capsys.readouterr().err
    slices.want({"GPU-0": "long"}, node())
    assert json.loads((tmp_path / "time_slices.json").read_text())["slices"] == {"GPU-0": "long"}


def test_nothing_is_done_where_nothing_is_asked_for(tmp_path: Path) -> None:
    TimeSlices(tmp_path, program="/none").begin({}, node())
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="/none: not found"):
        TimeSlices(tmp_path, program="/none").want({"GPU-0": "long"}, node())


def test_genuine_program_knows_the_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The simulated driver does not have it, and the program says that of this GPU and value."""
    program = genuine.nvidia_smi()
    sim = start("h100-80", 1)
    try:
        for name, value in sim.env.items():
            monkeypatch.setenv(name, value)
        uuid = sim.ctl("status")["gpus"][0]["uuid"]
        there = inventory(replace(view(), gpu=replace(view().gpu, uuid=uuid)))
        with pytest.raises(NodeError, match="Failed to set timeslice policy with value Medium for"):
            TimeSlices(tmp_path, program=os.fspath(program)).want({uuid: "medium"}, there)
    finally:
        sim.stop()


SHARED = (
    "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2, timeSlice: long}]}}"
)


def test_the_role_restarts_the_daemon_and_the_time_slice_is_given_back(
    make_node: MakeNode, tmp_path: Path
) -> None:
    from tests.fakes.daemon.running import eventually

    program, node = Program(tmp_path), make_node(1)
    path = f"{tmp_path}:{os.environ['PATH']}"
    node.start_kubelet()
    node.start_daemon(SHARED, PATH=path)
    node.wait(GPU, 2)
    uuid = node.sim.ctl("status")["gpus"][0]["uuid"]
    assert eventually(program.calls) == [f"compute-policy -i {uuid} --set-timeslice 3"]
    eventually(lambda: uuid in (node.status_file.with_name("time_slices.json")).read_text())
    node.signal(signal.SIGTERM)
    node.ended()
    node.start_daemon("", PATH=path)
    node.wait(GPU, 1)
    assert eventually(program.calls) == [f"compute-policy -i {uuid} --set-timeslice 0"]


def test_a_program_that_hangs_holds_up_nothing(make_node: MakeNode, tmp_path: Path) -> None:
    from tests.fakes.daemon.running import eventually

    program, node = Program(tmp_path), make_node(2)
    program.path.write_text(f"#!/bin/sh\necho started >> {program.asked}\nexec sleep 25\n")
    node.start_kubelet()
    node.start_daemon(SHARED, PATH=f"{tmp_path}:{os.environ['PATH']}")
    node.wait(GPU, 4)
    assert eventually(program.calls) == ["started"]
    node.sim.ctl("xid", gpu="1", number=79)
    node.wait(GPU, 2)
    assert not program.calls()  # the first has not ended
