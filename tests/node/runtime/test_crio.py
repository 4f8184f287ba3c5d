# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods of a genuine CRI-O, 1.36.3, on a node: what they see, and that they run through what the role changes.

CRIO_BIN names a folder with crio, crictl and pinns.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool import inside
from gpunode_tool.testing import Node

from tests.fakes.runtime import cri
from tests.fakes.runtime.crio_files import PACKAGE, PACKAGED
from tests.node.runtime.containers import (
    CONFIGURE,
    HERE,
    KIND_OF_NODE,
    RESTART,
    RUNTIMES,
    TRUE,
    check_isolation,
    install,
    run_of,
    write,
)
from tests.node.test_validate_node import VALIDATE, checks, names

CRIO_BIN = os.environ.get("CRIO_BIN", "")
SOCKET = "/run/crio/crio.sock"
IMAGE = "registry.k8s.io/pause:3.10.1"  # with which CRI-O 1.36 begins pods
OURS = "/etc/crio/crio.conf.d/zz-gpu-node.conf"
TOOLKIT = "/etc/nvidia-container-runtime/config.toml"
TO_CRUN = '[nvidia-container-runtime]\nruntimes = ["crun", "runc"]\n'
DROP_IN = "/etc/systemd/system/crio.service.d/site.conf"
RUNTIME = f"#!/usr/bin/python3\n{(HERE / 'oci_runtime.py').read_text()}"
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
# What a node that is itself a container needs beside upstream's files.
NESTED = """\
[crio]
storage_driver = "vfs"

[crio.runtime]
disable_hostport_mapping = true
"""
# As upstream's packages have it (cri-o/packaging).
UNIT = """\
[Unit]
Description=Container Runtime Interface for OCI (CRI-O)

[Service]
Type=notify
ExecStart=/usr/bin/crio $CRIO_CONFIG_OPTIONS
ExecReload=/bin/kill -s HUP $MAINPID
TasksMax=infinity
TimeoutStartSec=0
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""

pytestmark = [
    pytest.mark.node,
    pytest.mark.long,
    pytest.mark.skipif(not CRIO_BIN, reason="CRIO_BIN names no folder with crio"),
]


class Pods(cri.Pods):
    """Runs commands in pods of a node's CRI-O."""

    def __init__(self, node: Node) -> None:
        super().__init__(inside.path(node.name, SOCKET), IMAGE)

    def run(self, devices: list[str], *command: str, handler: str = "") -> set[str]:
        """Return the lines that a command prints in a pod with devices."""
        self.start("once", handler, devices=[f"nvidia.com/gpu={name}" for name in devices])
        try:
            return set(self.execute("once", *command).splitlines())
        finally:
            self.end("once")


def install_crio(node: Node) -> None:
    """Install CRI-O as upstream's packages do, and have an image."""
    install(node, "conmon", "crun", "podman")
    for name in ("crio", "crictl"):
        shutil.copy(Path(CRIO_BIN) / name, inside.path(node.name, f"/usr/bin/{name}"))
    node.run("mkdir", "-p", "/usr/libexec/crio", *map(os.path.dirname, (PACKAGE, TOOLKIT, DROP_IN)))
    shutil.copy(Path(CRIO_BIN) / "pinns", inside.path(node.name, "/usr/bin/pinns"))
    for path in (
        "/usr/libexec/crio/crun",
        "/usr/libexec/crio/runc",
        "/usr/bin/nvidia-container-runtime",
    ):
        write(node, path, RUNTIME)
        node.run("chmod", "755", path)
    node.run("ln", "-s", "/usr/bin/conmon", "/usr/libexec/crio/conmon")
    for path, text in (
        (PACKAGE, PACKAGED),
        ("/etc/crio/crio.conf.d/00-nested.conf", NESTED),
        ("/etc/crio/policy.json", POLICY),
        ("/etc/systemd/system/crio.service", UNIT),
    ):
        write(node, path, text)
    node.run("mkdir", "-p", "/etc/containers")
    write(node, "/etc/containers/policy.json", POLICY)
    node.run("python3", "-c", (HERE / "pod_image.py").read_text(), IMAGE, "podman")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "enable", "--now", "crio.service")


def test_pods_of_cri_o_run_through_all_modes(brought_up: Callable[..., Node]) -> None:
    node = brought_up("crio", "a100-40", 2, **KIND_OF_NODE)
    install_crio(node)
    before = node.run("sh", "-c", "cat /etc/crio/crio.conf.d/*")
    crio: dict[str, Any] = {"container_runtime_name": "cri-o"}
    cdi = node.play(RUNTIMES, **crio)
    assert cdi.ok, cdi.message()
    assert cdi.changed() == []  # CDI is always on
    pods = Pods(node)
    check_isolation(pods, node)

    # A pod runs through what follows, and a restart for folders of specifications.
    pods.start("plain", devices=["nvidia.com/gpu=0"])
    first = run_of(node, "crio")
    folders = node.play(
        RUNTIMES, **crio, container_runtime_spec_dirs=["/etc/cdi", "/var/run/cdi", "/opt/cdi"]
    )
    assert folders.changed() == [CONFIGURE, RESTART]
    assert run_of(node, "crio") != first
    assert pods.running() == {"plain"}

    # A handler is for the pods that name it, and stays as long as one of them runs.
    handler = {**crio, "container_runtime_mode": "runtime_class"}
    assert node.play(RUNTIMES, **handler).changed() == [CONFIGURE, RESTART]
    assert pods.run([], *TRUE) == pods.run([], *TRUE, handler="nvidia") == {"ran"}
    pods.start("handled", handler="nvidia")
    for refused in (crio, {**crio, "container_runtime_state": "absent"}):
        assert "they run under the handler nvidia" in node.play(RUNTIMES, **refused).message()
    assert pods.running() == {"plain", "handled"}
    pods.end("handled")

    # NVIDIA's runtime calls runc, and crun has started what runs.
    default = {**crio, "container_runtime_mode": "default_runtime"}
    refused = node.play(RUNTIMES, **default)
    assert not refused.ok
    assert "crun has started them" in refused.message()
    assert pods.running() == {"plain"}
    write(node, TOOLKIT, TO_CRUN)
    taken = node.play(RUNTIMES, **default)
    assert taken.ok, taken.message()
    assert pods.running() == {"plain"}
    assert pods.run([], *TRUE) == {"ran"}
    gone = node.play(RUNTIMES, **crio, container_runtime_state="absent")
    assert gone.ok, gone.message()
    assert pods.running() == {"plain"}
    assert node.run("sh", "-c", "cat /etc/crio/crio.conf.d/*") == before
    pods.end("plain")


def test_validation_looks_into_a_container_of_cri_o(brought_up: Callable[..., Node]) -> None:
    node = brought_up("validate-crio", "a100-40", 2, **KIND_OF_NODE)
    install_crio(node)
    crio: dict[str, Any] = {"container_runtime_name": "cri-o"}
    assert node.play(RUNTIMES, **crio).ok
    good = node.play(VALIDATE)
    assert good.ok, good.message()
    assert checks(good)["cri-o: container"]["state"] == "passed"
    assert Pods(node).running() == set()
    assert node.run("crictl", f"--runtime-endpoint=unix://{SOCKET}", "pods", "--quiet") == ""

    # Each flag of CRI-O has a variable, which has the last word over all files.
    write(node, DROP_IN, "[Service]\nEnvironment=CONTAINER_CDI_SPEC_DIRS=/opt/cdi\n")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "restart", "crio.service")
    broken = node.play(VALIDATE, gpu_nodes_components=["runtime"], **crio)
    assert not broken.ok
    assert "cri-o: CDI" in names(checks(broken), "failed")
    assert "it reads /opt/cdi" in broken.message()
    refused = node.play(RUNTIMES, **crio)
    assert f"set in {DROP_IN}" in refused.message()
