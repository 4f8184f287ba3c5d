# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine containerd with genuine pods as the unit containerd.service of a machine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.containerd import PYTHON

from tests.fakes.runtime import cri
from tests.fakes.runtime.crio_unit import HANDLER, RUNTIME
from tests.fakes.runtime.daemon_unit import DaemonUnit
from tests.fakes.runtime.genuine_runtimes import CONFIG

SOCKET = "/run/containerd/containerd.sock"
IMAGE = "registry.example/pause:1"
# What a machine that is itself a container lets pods have.
TEXT = f"""\
version = 2

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGE}"
restrict_oom_score_adj = true
enable_cdi = false
"""


class ContainerdUnit(DaemonUnit):
    """A machine whose containerd.service starts containerd by the usual file."""

    unit = "containerd.service"
    command = "/usr/bin/containerd"

    def __init__(self, root: Path, suite: str) -> None:
        super().__init__(root, suite, {CONFIG: TEXT})
        for path in ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf"):
            self.put(path, Path(path).read_text())
        (root / "var/run").symlink_to("/run")
        (root / "var/tmp").mkdir()
        self.put(HANDLER, RUNTIME.format(runc="/usr/sbin/runc"))
        (root / HANDLER[1:]).chmod(0o755)
        self.answers[HANDLER] = "NVIDIA Container Runtime version 1.20.0\n"
        self.pods = cri.Pods(root / SOCKET[1:], IMAGE)

    def run(self, argv, **values):  # type: ignore[no-untyped-def]
        """Run a command; the device plugin's Python is the one of the tests."""
        if argv[0] == PYTHON:
            command = [*self.inside(), sys.executable, *argv[1:]]
            return super().run(["env", *command], **values)
        return super().run(argv, **values)

    def which(self, name: str) -> str | None:
        return "/usr/bin/env" if name == "env" else super().which(name)

    def _properties(self) -> Iterator[str]:
        yield from super()._properties()
        yield "KillMode=process"

    def answers_clients(self) -> bool:
        with contextlib.suppress(grpc.RpcError):
            self.pods.running()
            return True
        return False

    def import_image(self) -> None:
        """Have the image that pods begin with."""
        ctr = str(self.programs["containerd"].parent / "ctr")
        words = [*self.inside(), ctr, "--namespace=k8s.io", "images", "import"]
        told = subprocess.run([*words, "--help"], check=True, capture_output=True, text=True)
        local = ["--local"] if "--local" in told.stdout else []
        done = subprocess.run(
            [*words, *local, "-"], input=cri.docker_archive(IMAGE), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def end_containers(self) -> None:
        self.pods.end()
