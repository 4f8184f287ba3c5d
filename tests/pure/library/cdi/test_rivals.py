# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Other specifications of the node's GPUs: which of them take devices away, as CDI's cache resolves them."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cdi.machine.specify import (
    device_names,
    rivals,
)

OURS = "/etc/cdi/nvidia.yaml"
NAMES = ("0", "GPU-a", "all")


def spec(*names: str, kind: str = "nvidia.com/gpu") -> str:
    devices = [{"name": one, "containerEdits": {"env": ["A=b"]}} for one in names]
    return json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": devices})


YAML = """\
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- name: all # of them
  containerEdits: {}
"""


def test_devices_of_other_names_are_merged_and_nothing_is_said() -> None:
    assert rivals(OURS, NAMES, {"/etc/cdi/mig.yaml": spec("1:0", "MIG-a")}) == []
    assert rivals(OURS, NAMES, {"/run/cdi/imex.json": spec("0", kind="nvidia.com/imex")}) == []


@pytest.mark.parametrize("text", [spec("0", "all", "7"), YAML])
def test_what_two_files_of_a_folder_have_is_nobodys(text: str) -> None:
    (said,) = rivals(OURS, NAMES, {"/etc/cdi/other.yaml": text})
    assert "/etc/cdi/other.yaml describes 0, all of nvidia.com/gpu too" in said
    assert "no container gets them" in said
    assert "Next step: remove it" in said


@pytest.mark.parametrize("folder", ["/run/cdi", "/var/run/cdi"])
def test_the_folder_that_is_read_later_wins(folder: str) -> None:
    (said,) = rivals(OURS, NAMES, {f"{folder}/nvidia.yaml": spec("GPU-a")})
    assert f"{folder}/nvidia.yaml describes GPU-a of nvidia.com/gpu too" in said
    assert f"runtimes take them from there, not from {OURS}" in said
    mine = f"{folder}/nvidia.yaml"
    assert rivals(mine, NAMES, {"/etc/cdi/nvidia.yaml": spec("GPU-a")}) == []
    assert "no container gets" in rivals("/run/cdi/a.json", NAMES, {mine: spec("0")})[0]


def test_a_file_whose_devices_cannot_be_read_is_named() -> None:
    (said,) = rivals(OURS, NAMES, {"/etc/cdi/old.yaml": "kind: nvidia.com/gpu\ndevices: &x\n"})
    assert "/etc/cdi/old.yaml describes nvidia.com/gpu too, and its devices can't be read" in said


def test_names_of_devices_are_read_from_any_specification() -> None:
    assert device_names(spec("0", "GPU-a")) == {"0", "GPU-a"}
    assert device_names(YAML) == {"0", "all"}
    assert device_names('{"kind": "nvidia.com/gpu"}') == set()
    assert device_names('{"devices": [5, {"name": 3}, {"name": "x"}]}') == {"x"}
