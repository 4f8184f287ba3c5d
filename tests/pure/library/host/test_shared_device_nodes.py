# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device nodes that all GPUs share are judged by existence and number, and missed in a specification."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cdi.machine.specify import lost_nodes
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Status
from ansible_collections.gpu.node.plugins.module_utils._node.machine.device_nodes import problems

from tests.fakes.library.fakes import FakeHost

DEVICES = "Character devices:\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n  8 sd\n"
CHARACTER, FOLDER = 0o020666, 0o040755


def host(root: str = "", **nodes: tuple[int, int] | None) -> FakeHost:
    """Return a machine with a loaded driver; a node is its number, or None where it is missing."""
    fake = FakeHost({f"{root}/proc/driver/nvidia/version": "", f"{root}/proc/devices": DEVICES})
    fake.files[f"{root}/dev/null"] = ""
    for name, number in {"nvidiactl": (195, 255), "nvidia_uvm": (510, 0), **nodes}.items():
        path = f"{root}/dev/{name.replace('_', '-')}"
        if number:
            fake.files[path] = ""
            fake.statuses[path] = Status(CHARACTER, 0, device=os.makedev(*number))
    return fake


@pytest.mark.parametrize("root", ["", "/host"])
def test_nodes_with_the_drivers_numbers_are_no_problem(root: str) -> None:
    assert problems(host(root), root) == ()


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ({"nvidiactl": None}, "/dev/nvidiactl does not exist"),
        ({"nvidia_uvm": None}, "/dev/nvidia-uvm does not exist"),
        (
            {"nvidia_uvm": (499, 0)},
            "/dev/nvidia-uvm has the number 499:0, which is not nvidia-uvm's",
        ),
        ({"nvidia_uvm": (510, 1)}, "/dev/nvidia-uvm has the number 510:1"),
        ({"nvidiactl": (194, 255)}, "/dev/nvidiactl has the number 194:255, not 195:255"),
    ],
)
def test_a_missing_node_and_a_stale_number_are_problems(
    nodes: dict[str, tuple[int, int] | None], problem: str
) -> None:
    (found,) = problems(host(**nodes))
    assert found.startswith(problem)


def test_a_folder_that_a_container_engine_made_is_a_problem() -> None:
    fake = host()
    fake.statuses["/dev/nvidia-uvm"] = Status(FOLDER, 0)
    assert problems(fake) == ("/dev/nvidia-uvm is a folder",)


def test_without_a_loaded_driver_or_a_view_of_its_nodes_nothing_is_judged() -> None:
    unloaded = host(nvidiactl=None)
    del unloaded.files["/proc/driver/nvidia/version"]
    assert problems(unloaded) == ()
    assert problems(host(), dev_root="/run/nvidia/driver") == ()


def specification(*paths: str) -> str:
    nodes = [{"path": path} for path in paths]
    return json.dumps({"devices": [], "containerEdits": {"deviceNodes": nodes}})


def test_a_specification_that_loses_a_shared_node_is_refused() -> None:
    before = specification("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset")
    after = specification("/dev/nvidiactl")
    refusal = lost_nodes(host(nvidia_uvm=None), before, after, "")
    assert refusal is not None
    assert refusal.message == "device nodes that all GPUs share are gone: /dev/nvidia-uvm"
    assert "systemctl restart gpu-device-nodes.service" in refusal.hint
    assert lost_nodes(host(), before, after, "") is None  # the node is there
    assert lost_nodes(host(nvidia_uvm=None), None, after, "") is None
    assert lost_nodes(host(nvidia_uvm=None), "devices: []", after, "") is None
    assert lost_nodes(host(nvidia_uvm=None), before, "", "") is None
