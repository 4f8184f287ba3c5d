# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is wrong in the inventory, or with the node, is said before anything on a fresh node is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

LOOK = "Look at the node and plan what it needs"

pytestmark = pytest.mark.node

# For a node with eight GPUs; this one has two.
HALF: list[dict[str, Any]] = [
    {"devices": [0], "mig-enabled": False, "mig-devices": {}},
    {"devices": [4], "mig-enabled": True, "mig-devices": {"1g.5gb": 2}},
]
WRONG: dict[str, Any] = {
    "mig_config": {"version": "v1", "mig-configs": {"half": HALF}},
    "device_plugin_config": {"version": "v1", "flag": {"migStrategy": "mixed"}},
    "device_plugin_wait_timeout": -5,
    "cdi_path": "/srv/nvidia.yaml",
}
SAID = [
    "- device_plugin_config: unknown key flag: the top level knows ",
    "- device_plugin_wait_timeout: -5 is not valid: expected a number of seconds, not negative",
    "- cdi_path: '/srv/nvidia.yaml' is not valid: expected a file in a folder that the container",
    "- mig_config.mig-configs.half[1].devices: 4 is not valid: expected a GPU of this node: 0 (",
]
# All that was written since, but for what runs by itself, is Ansible's own for the time of a run, or a cache of apt's.
TOUCHED = """
find / -xdev -cnewer /root/before \\( -path /root/.ansible -o -path /run -o -path /tmp -o -path /var/log \\
    -o -path /var/tmp -o -path /var/lib/systemd -o -path /var/lib/containerd -o -path /dev \\
    -o -path '/var/cache/apt/*.bin' \\) -prune \\
    -o -xdev -type f -cnewer /root/before -print
dpkg -l | sha256sum
"""
# What is written afterwards is newer, by the file system's own clock.
BEFORE = "touch /root/before /root/after; until [ /root/after -nt /root/before ]; do touch /root/after; done"
# The parts of a node that is to get all.
PARTS = {"environment", "driver", "runtime", "mig", "cdi", "device_plugin"}
LAYOUT = {**WRONG["mig_config"], "mig-configs": {"half": [{**HALF[1], "devices": [1]}]}}


def lines(text: str) -> list[str]:
    return text.replace("\\n", "\n").split("\n")


def test_a_fresh_node_is_not_touched_by_what_is_refused_nor_by_check_mode(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("preflight", "a100-40", 2)
    node.run("sh", "-c", BEFORE)
    before = node.run("sh", "-c", TOUCHED)
    for cmdline in ("--check --diff", ""):
        refused = node.play(cmdline=cmdline, **WRONG)
        assert not refused.ok
        assert refused.changed() == []
        found = lines(refused.message())
        for said in SAID:
            assert any(one.startswith(said) for one in found), (said, found)
        assert refused.module_calls() == [LOOK]

    # The whole path is shown in one call, with what has to wait for what.
    checked = node.play(cmdline="--check --diff", mig_config=LAYOUT)
    assert checked.ok, checked.message()
    assert checked.module_calls() == checked.changed() == [LOOK]
    parts = checked.plan()
    assert {name for name, one in parts.items() if one["steps"]} == set(parts) == PARTS
    later = {name: one["later"] for name, one in parts.items() if one["later"]}
    assert (later["mig"], later["cdi"]) == ("NVML answers", "the driver is loaded")
    assert all(one["diff"]["prepared"] for one in parts.values())
    text = "\n".join(step["summary"] for one in parts.values() for step in one["steps"])
    for word in ("nvidia-smi", "enable_cdi", "/opt/gpu-node", "half"):
        assert word in text, f"{word} is not in:\n{text}"
    told = checked.runner.stdout.read()
    assert "mig: would partition GPUs as half once NVML answers" in told
    assert node.run("sh", "-c", TOUCHED) == before

    # What is full or can't be written comes to light as early, and with it all that is wrong with the node.
    node.run("sh", "-c", "mkdir -p /opt/gpu-node && mount -t tmpfs -o size=40m small /opt/gpu-node")
    node.run("sh", "-c", "mkdir -p /etc/cdi && mount -t tmpfs -o ro stiff /etc/cdi")
    refused = node.play()
    found = lines(refused.message())
    assert not refused.ok
    assert refused.changed() == []
    assert any("/opt/gpu-node: 40 MiB are free, and 300 MiB are needed" in one for one in found)
    assert any("/etc/cdi: the file system is read-only (mount it writable)" in one for one in found)
    assert node.run("sh", "-c", "ls -A /opt/gpu-node") == ""


LISTEN = """
import pathlib, signal, socket
path = pathlib.Path("/var/lib/kubelet/device-plugins/nvidia-gpu.sock")
path.parent.mkdir(parents=True, exist_ok=True)
server = socket.socket(socket.AF_UNIX)
server.bind(str(path))
server.listen()
signal.pause()
"""
LISTENER = "another device plugin serves nvidia.com/gpu on this node: process "
CONTAINER = "- nvidia_driver_source: 'distribution' is not possible: a container has its driver in "


@pytest.mark.long
def test_what_others_run_on_a_node_is_refused(make_node: Callable[..., Node]) -> None:
    node = make_node("others", "a100-40", 2)
    node.run("systemd-run", "--unit", "nvidia-plugin", "python3", "-c", LISTEN)
    node.run("mkdir", "-p", "/run/nvidia/driver/usr/bin")
    node.run("touch", "/run/nvidia/driver/usr/bin/nvidia-smi")
    refused = node.play()
    found = lines(refused.message())
    assert any(one.startswith(CONTAINER) for one in found), found
    said = next(one for one in found if one.startswith(f"- {LISTENER}"))
    assert "(python3, nvidia-plugin.service) listens on /var/lib/kubelet/device-plugins/" in said
    assert refused.changed() == []
    # What the operator is found by stays; of the plugin its socket, on which nobody listens any more.
    node.run("systemctl", "stop", "nvidia-plugin")
    node.run("test", "-S", "/var/lib/kubelet/device-plugins/nvidia-gpu.sock")
    found = lines(node.play(cmdline="--check").message())
    assert any(one.startswith(CONTAINER) for one in found), found
    assert not [one for one in found if LISTENER in one]
