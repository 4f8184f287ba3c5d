# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods on a real containerd see the devices that they ask for, and no others, whatever happens to the node."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import Node

HERE = Path(__file__).parent
PYTHON = "/opt/gpu-node/current/bin/python"
CONFIG = "/etc/containerd/config.toml"
SPEC = "/etc/cdi/nvidia.yaml"
SECTION = '[plugins."io.containerd.grpc.v1.cri"]'
# Pods in a container that may not raise its limits need it.
FOREIGN = "restrict_oom_score_adj = true  # not ours"
MIG = {
    "version": "v1",
    "mig-configs": {
        "half": [
            {"devices": [0], "mig-enabled": False, "mig-devices": {}},
            {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.5gb": 2}},
        ]
    },
}
ROLE = "Let the container runtime hand out GPUs"
RESTART = "Restart the container runtime"

pytestmark = pytest.mark.node


class Pods:
    """Runs commands in pods of a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        dump = node.run("containerd", "config", "dump")
        match = re.search(r'^\s*sandbox_image = "(.+)"', dump, re.M)
        assert match, dump
        self.image = match[1]
        node.run("python3", "-c", (HERE / "pod_image.py").read_text(), self.image)

    def run(self, devices: list[str], *command: str) -> set[str]:
        """Return the lines that a command prints in a pod with these devices."""
        names = json.dumps([f"nvidia.com/gpu={name}" for name in devices])
        script = (HERE / "pod.py").read_text()
        return set(self.node.run(PYTHON, "-c", script, self.image, names, *command).splitlines())

    def nodes(self, *devices: str) -> set[str]:
        """Return NVIDIA's device nodes in a pod."""
        return self.run(list(devices), "/usr/bin/find", "/dev", "-name", "nvidia*", "-type", "c")


def specification(node: Node) -> tuple[dict[str, set[str]], dict[str, Any]]:
    """Return the device nodes of each name, and what all have in common."""
    spec = json.loads(node.run("cat", SPEC))
    devices = {
        one["name"]: {entry["path"] for entry in one["containerEdits"]["deviceNodes"]}
        for one in spec["devices"]
    }
    return devices, spec["containerEdits"]


def short_names(node: Node) -> set[str]:
    return {name for name in specification(node)[0] if not name.startswith(("GPU-", "MIG-"))}


def started(node: Node) -> str:
    words = ("systemctl", "show", "containerd", "--property=ActiveEnterTimestampMonotonic")
    return node.run(*words)


def eventually(look: Callable[[], Any], expected: Any, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while (found := look()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


def test_pods_see_what_they_ask_for(make_node: Callable[..., Node]) -> None:
    node = make_node("runtime", "a100-40", 2, mig_config=MIG)
    text = node.run("cat", CONFIG)
    assert SECTION in text
    original = text.replace(SECTION, f"{SECTION}\n    {FOREIGN}")
    node.run("python3", "-c", f"open({CONFIG!r}, 'w').write({original!r})")
    up = node.play()
    assert up.ok, up.message()
    assert FOREIGN in node.run("cat", CONFIG)
    pods = Pods(node)

    devices, common = specification(node)
    control = {entry["path"] for entry in common["deviceNodes"]}
    assert short_names(node) == {"0", "1:0", "1:1", "all"}
    assert pods.nodes() == set()
    assert pods.nodes("0") == {"/dev/nvidia0"} | control
    one, two = pods.nodes("1:0"), pods.nodes("1:1")
    assert (one, two) == (devices["1:0"] | control, devices["1:1"] | control)
    assert one & two == {"/dev/nvidia1"} | control
    assert len(one) == len(control) + 3
    assert pods.nodes("all") == devices["all"] | control

    listing = ("/usr/bin/find", "/usr", "-name", "*nvidia*", "-o", "-name", "libcuda*")
    mounted = {entry["containerPath"] for entry in common["mounts"]}
    wanted = {path for path in mounted if "nvidia" in path or "libcuda" in path}
    assert any("libcuda.so.1" in path for path in wanted)
    assert pods.run([], *listing) == set()
    found = pods.run(["0"], *listing)
    assert {path for path in wanted if path.startswith("/usr")} <= found
    assert "NVIDIA_VISIBLE_DEVICES=void" in pods.run(["0"], "/usr/bin/env")
    assert not [line for line in pods.run([], "/usr/bin/env") if "NVIDIA" in line]

    before = started(node)
    again = node.play()
    assert again.ok, again.message()
    assert again.changed() == []
    assert [task for task in again.module_calls() if task in (ROLE, RESTART)] == [ROLE]
    assert started(node) == before

    # Somebody changes the layout without Ansible: the specification follows, and then the pods.
    node.run("systemctl", "stop", "gpu-device-plugin")
    node.run("nvidia-smi", "mig", "-i", "1", "-dci")
    node.run("nvidia-smi", "mig", "-i", "1", "-dgi")
    eventually(lambda: short_names(node), {"0", "all"})
    assert pods.nodes("all") == {"/dev/nvidia0"} | control

    # The layout that was asked for comes back at boot, and with it its specification.
    node.reboot()
    eventually(lambda: short_names(node), {"0", "1:0", "1:1", "all"})
    devices = specification(node)[0]
    assert pods.nodes("1:1") == devices["1:1"] | control

    # Another tool writes its own file over ours: one edit and one restart mend it.
    other = original.replace("not ours", "not theirs either")
    node.run("python3", "-c", f"open({CONFIG!r}, 'w').write({other!r})")
    mended = node.play()
    assert mended.ok, mended.message()
    assert [task for task in mended.changed() if task in (ROLE, RESTART)] == [ROLE, RESTART]
    assert pods.nodes("0") == {"/dev/nvidia0"} | control
    assert node.play().changed() == []

    gone = node.play(container_runtime_state="absent", cdi_state="absent")
    assert gone.ok, gone.message()
    assert node.run("cat", CONFIG) == other
    left = node.run(
        "sh", "-c", f"ls {SPEC} /etc/systemd/system/gpu-cdi.* /etc/gpu-node/cdi.json", check=False
    )
    assert left == ""
    assert pods.nodes() == set()
