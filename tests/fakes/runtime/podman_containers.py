# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Containers of a genuine podman on a machine whose files lie below a folder."""

from __future__ import annotations

import contextlib
import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.runtime import cri
from tests.fakes.runtime.genuine_runtimes import GenuineRuntimes

ROOT = "/var/tree"
ETC = ("passwd", "group")
# What a machine that is itself a container, without a systemd of its own, lets podman do.
MACHINE = ("--storage-driver=vfs", "--cgroup-manager=cgroupfs")
CONTAINER = ("--ulimit=host", "--network=none")


class PodmanContainers:
    """The containers of a machine's podman, each of which sleeps."""

    def __init__(self, node: GenuineRuntimes) -> None:
        self._node = node
        node.install_podman()
        for name in ETC:
            node.put(f"/etc/{name}", Path("/etc", name).read_text())
        (node.root / "var/tmp").mkdir()
        (node.root / "var/run").symlink_to("/run")
        with tarfile.open(fileobj=io.BytesIO(cri.tree())) as archive:
            archive.extractall(node.root / ROOT[1:], filter="data")

    def _podman(self, *args: str) -> Completed:
        runc = shutil.which("runc", path="/usr/sbin:/usr/bin")
        return self._node.run(["podman", *MACHINE, f"--runtime={runc}", *args], check=False)

    def run(self, *args: str) -> Completed:
        """Run a command in a container."""
        return self._podman("run", "--rm", *CONTAINER, *args)

    @contextlib.contextmanager
    def sleeping(self, name: str) -> Iterator[None]:
        """Have a container sleep for the time of a with statement."""
        started = self._podman(
            "run", "--detach", f"--name={name}", *CONTAINER, "--rootfs", ROOT, *cri.SLEEP
        )
        assert started.rc == 0, started.err
        try:
            yield
        finally:
            self._podman("rm", "--force", "--time=0", name)

    def running(self) -> set[str]:
        """Return the names of the containers that run."""
        return set(self._podman("ps", "--format={{.Names}}").out.split())
