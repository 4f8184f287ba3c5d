# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Containers on a node through containerd's CRI, Docker and podman, and what they see."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gpunode_tool.testing import Node

HERE = Path(__file__).parent
PYTHON = "/opt/gpu-node/current/bin/python"
CONTAINERD = "/etc/containerd/config.toml"
SECTION = '[plugins."io.containerd.grpc.v1.cri"]'
# Pods in a container that may not raise its limits need it.
FOREIGN = "restrict_oom_score_adj = true  # not ours"
RUNTIMES = str(HERE / "runtime.yml")  # the playbook
SPEC = "/etc/cdi/nvidia.yaml"
KIND = "nvidia.com/gpu"
IMAGE = "localhost/tools:latest"
SEEN = (
    "find /dev -name 'nvidia*' -type c; env;"
    " find /usr ! -type d '(' -name '*nvidia*' -o -name 'libcuda*' ')'; nvidia-smi -L; true"
)
# The node of check_isolation.
MIG = {
    "version": "v1",
    "mig-configs": {
        "half": [
            {"devices": [0], "mig-enabled": False, "mig-devices": {}},
            {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.5gb": 2}},
        ]
    },
}
KIND_OF_NODE: dict[str, Any] = {"mig_config": MIG, "node_labels_output": "file"}
CONFIGURE = "Enable GPUs (CDI) in the container runtime"
RESTART = "Restart the container runtime"
RELOAD = "Reload the container runtime"
TRUE = ("/usr/bin/sh", "-c", "echo ran")
ENGINES = {
    "docker": ("docker", "run"),
    "podman": ("podman", "--storage-driver=vfs", "run"),
}


class Engine:
    """Runs commands in containers of Docker or podman, each with devices by their CDI names."""

    def __init__(self, node: Node, name: str) -> None:
        self.node, self.words = node, ENGINES[name]
        node.run("python3", "-c", (HERE / "pod_image.py").read_text(), IMAGE, name)

    def run(self, devices: list[str], *command: str, options: tuple[str, ...] = ()) -> set[str]:
        """Return the lines that a command prints in a container."""
        words = [*self.words, "--rm", "--network=none", "--volume=/run/nvsim:/run/nvsim", *options]
        words += [f"--device={KIND}={name}" for name in devices]
        return set(self.node.run(*words, IMAGE, *command).splitlines())


class Pods:
    """Runs commands in pods of containerd."""

    def __init__(self, node: Node) -> None:
        self.node = node
        dump = node.run("containerd", "config", "dump")
        match = re.search(r"""^\s*sandbox(?:_image)? = ["'](.+)["']""", dump, re.M)
        assert match, dump
        self.image = match[1]
        node.run("python3", "-c", (HERE / "pod_image.py").read_text(), self.image)

    def run(self, devices: list[str], *command: str, handler: str = "") -> set[str]:
        """Return the lines that a command prints in a pod, which may name a handler."""
        names = json.dumps([f"{KIND}={name}" for name in devices])
        words = (PYTHON, "-c", (HERE / "pod.py").read_text(), self.image, names, handler)
        return set(self.node.run(*words, *command).splitlines())


def device_nodes(engine: Engine | Pods, *devices: str) -> set[str]:
    """Return NVIDIA's device nodes in a container."""
    words = ("/usr/bin/find", "/dev", "-name", "nvidia*", "-type", "c")
    return engine.run(list(devices), *words)


def specification(node: Node) -> tuple[dict[str, set[str]], dict[str, Any]]:
    """Return the device nodes of each name, and what all have in common."""
    spec = json.loads(node.run("cat", SPEC))
    devices = {
        one["name"]: {entry["path"] for entry in one["containerEdits"]["deviceNodes"]}
        for one in spec["devices"]
    }
    return devices, spec["containerEdits"]


def short_names(node: Node) -> set[str]:
    """Return the names of the devices without their UUIDs."""
    return {name for name in specification(node)[0] if not name.startswith(("GPU-", "MIG-"))}


def uuid_of(node: Node, name: str) -> str:
    """Return the UUID of a device by its short name: the entry that follows it is the same device."""
    names = [one["name"] for one in json.loads(node.run("cat", SPEC))["devices"]]
    return str(names[names.index(name) + 1])


class Inside:
    """What a container sees that has devices: device nodes, files of the driver, variables, UUIDs of GPUs."""

    def __init__(self, engine: Engine | Pods, *devices: str) -> None:
        lines = engine.run(list(devices), "/usr/bin/sh", "-c", SEEN)
        self.nodes = {one for one in lines if one.startswith("/dev/")}
        self.files = {one for one in lines if one.startswith("/usr/")}
        self.variables = {one for one in lines if one.startswith("NVIDIA")}
        self.uuids = set(re.findall(r"UUID: (\S+)\)", "\n".join(sorted(lines))))


def check_isolation(engine: Engine | Pods, node: Node) -> None:
    """See that containers get what they name and nothing else; node has GPU 0 whole and 1:0, 1:1 in parts."""
    devices, common = specification(node)
    control = {entry["path"] for entry in common["deviceNodes"]}
    assert short_names(node) == {"0", "1:0", "1:1", "all"}
    without, whole, every = (Inside(engine, *names) for names in ((), ("0",), ("all",)))
    one, two = Inside(engine, "1:0"), Inside(engine, "1:1")
    assert (without.nodes, without.files, without.variables) == (set(), set(), set())
    assert whole.nodes == {"/dev/nvidia0"} | control
    assert (one.nodes, two.nodes) == (devices["1:0"] | control, devices["1:1"] | control)
    assert one.nodes & two.nodes == {"/dev/nvidia1"} | control
    assert len(one.nodes) == len(control) + 3
    assert every.nodes == devices["all"] | control

    mounted = {entry["containerPath"] for entry in common["mounts"]}
    wanted = {path for path in mounted if "nvidia" in path or "libcuda" in path}
    assert any("libcuda.so.1" in path for path in wanted)
    assert whole.files == {path for path in wanted if path.startswith("/usr")}
    assert "NVIDIA_VISIBLE_DEVICES=void" in whole.variables

    # The genuine nvidia-smi, mounted by the specification, on the library that it mounts.
    assert whole.uuids == {uuid_of(node, "0")}
    for name, found in (("1:0", one), ("1:1", two)):
        gpu, mig = sorted(found.uuids)
        assert gpu.startswith("GPU-")
        assert gpu != uuid_of(node, "0")
        assert mig == uuid_of(node, name)
    assert len(every.uuids) == 4


def run_of(node: Node, unit: str) -> str:
    """Return which run of a unit this is: it changes with every start."""
    shown = node.run("systemctl", "show", unit, "--property=InvocationID,ActiveState")
    assert "ActiveState=active" in shown, shown
    return shown


def install(node: Node, *packages: str) -> None:
    """Install packages of the node's own distribution."""
    node.run("apt-get", "update", "--quiet=2")
    # Nodes of one checkout share the folder that packages are kept in, and its lock.
    words = ("apt-get", "--option=DPkg::Lock::Timeout=300", "install", "--quiet=2", "--yes")
    words += ("--no-install-recommends",)
    node.run("env", "DEBIAN_FRONTEND=noninteractive", *words, *packages)


def with_foreign(text: str) -> str:
    """Return containerd's configuration with a line that is not ours, and without which no pod starts here."""
    assert SECTION in text
    return text.replace(SECTION, f"{SECTION}\n    {FOREIGN}")


def allow_pods(node: Node) -> None:
    """Let containerd start pods on a node in service."""
    write(node, CONTAINERD, with_foreign(node.run("cat", CONTAINERD)))
    node.run("systemctl", "restart", "containerd")


def write(node: Node, path: str, text: str) -> None:
    """Write a file as another tool would: at once and without asking."""
    node.run("python3", "-c", f"open({path!r}, 'w').write({text!r})")
