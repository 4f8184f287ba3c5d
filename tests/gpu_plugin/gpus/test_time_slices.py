# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The time slice of shared GPUs, set through nvidia-smi."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from gpu_builders import device, inventory, view
from gpu_plugin._shared._core.errors import NodeError
from gpu_plugin.config.configuration import parse
from gpu_plugin.config.sharing import Sharing
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.gpus.driver import TimeSlices
from gpu_plugin.offer.decide import not_shared, share, time_slices
from gpu_plugin.offer.devices import enumerate_devices
from nvsim import genuine
from nvsim.testing import start

GPU = "nvidia.com/gpu"


def sharing(name: str = GPU, time_slice: object = "short", **more: object) -> Sharing:
    entry = {"name": name, "replicas": 2, "timeSlice": time_slice, **more}
    return parse(json.dumps({"sharing": {"timeSlicing": {"resources": [entry]}}})).sharing


class Program:
    """Notes how it is called."""

    def __init__(self, folder: Path, status: int = 0) -> None:
        self.path, self.asked = folder / "nvidia-smi", folder / "asked"
        self.path.write_text(f'#!/bin/sh\necho "$@" >> {self.asked}\necho no; exit {status}\n')
        self.path.chmod(0o755)

    def calls(self) -> list[str]:
        found = self.asked.read_text().splitlines() if self.asked.exists() else []
        self.asked.unlink(missing_ok=True)
        return found


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
    assert not_shared(node, asked) == [
        "timeSlice has no effect on nvidia.com/mig-1g.10gb: MIG devices have none"
    ]


def test_it_is_set_once_and_given_back(tmp_path: Path) -> None:
    program = Program(tmp_path)
    slices = TimeSlices(str(program.path))
    for _round in range(2):
        slices.want({"GPU-0": "long", "GPU-1": "long", "GPU-2": "short"}, 1)
    assert program.calls() == [
        "compute-policy -i GPU-2 --set-timeslice 1",
        "compute-policy -i GPU-0,GPU-1 --set-timeslice 3",
    ]
    slices.want({"GPU-0": "long", "GPU-1": "medium"}, 1)
    assert program.calls() == [
        "compute-policy -i GPU-2 --set-timeslice 0",
        "compute-policy -i GPU-1 --set-timeslice 2",
    ]
    slices.want({"GPU-0": "long"}, 2)  # another load of the driver has forgotten all
    assert program.calls() == ["compute-policy -i GPU-0 --set-timeslice 3"]


def test_what_can_not_be_set_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Program(tmp_path, 3)
    chore = TimeSlices(str(program.path)).chore
    chore.run({"GPU-0": "long"}, 1)
    chore.run({"GPU-0": "long"}, 1)
    told = capsys.readouterr().err
    assert told.count("the time slice can't be set") == 1
    assert chore.error == "long for GPU-0: no"
    assert len(program.calls()) == 1
    chore.run({}, 1)
    assert chore.error == "default for GPU-0: no"
    with pytest.raises(NodeError, match="not found"):
        TimeSlices("/none").want({"GPU-0": "long"}, 1)


def test_genuine_program_knows_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated driver does not have it, and the program says that of this GPU and value."""
    program = genuine.nvidia_smi()
    sim = start("h100-80", 1)
    try:
        for name, value in sim.env.items():
            monkeypatch.setenv(name, value)
        uuid = sim.ctl("status")["gpus"][0]["uuid"]
        with pytest.raises(NodeError, match="Failed to set timeslice policy with value Medium for"):
            TimeSlices(os.fspath(program)).want({uuid: "medium"}, 1)
    finally:
        sim.stop()
