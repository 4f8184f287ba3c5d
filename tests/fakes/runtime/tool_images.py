# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Machines whose genuine podman or docker has an image of tools, which are shell scripts."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from nvsim import genuine

from tests.fakes.runtime import docker_unit
from tests.fakes.runtime.genuine_runtimes import NEWEST, GenuineRuntimes
from tests.fakes.runtime.podman_containers import MACHINE

IMAGE = "registry.example.org/gpu-tests:1"
GPUS = ("GPU-0", "GPU-1", "GPU-2")
# Its devices are seen by a variable each.
SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": gpu, "containerEdits": {"env": [f"SEEN_{at}={gpu}"]}}
        for at, gpu in enumerate(GPUS)
    ],
}
SHELL = "#!/bin/busybox sh\nset -eu\nPATH=/bin\n"


def archive(files: Mapping[str, str]) -> bytes:
    """Return the files of an image with a busybox, whose scripts are in /bin."""
    busybox = genuine.program("busybox-static", "busybox").read_bytes()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        scripts = {path: text.encode() for path, text in files.items()}
        links = {f"bin/{name}": busybox for name in ("busybox", "sh", "env", "cat", "ls", "id")}
        for path, data in {**links, "bin/sleep": busybox, "bin/mkfifo": busybox, **scripts}.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


class ToolHost(Host):
    """What a module sees of such a machine: one client, and the machine's files."""

    def __init__(self, node: GenuineRuntimes, client: Path) -> None:
        super().__init__()
        self._node, self._client = node, client

    def which(self, name: str) -> str | None:
        if name.startswith("/"):
            return super().which(name)
        return str(self._client) if name == self._client.name else None

    def read_bytes(self, path: str) -> bytes | None:
        return self._node.read_bytes(path)

    def listdir(self, path: str) -> list[str]:
        return self._node.listdir(path)


class ToolMachine:
    """A machine on which ``client`` is podman or docker, with the CDI specification of three GPUs.

    Args:
        node: Its files and programs.
        name: The client's name.
        command: The client, and what a machine that is itself a container lets it do.
        run_options: The same for its command ``run``.
    """

    def __init__(
        self, node: GenuineRuntimes, name: str, command: Sequence[str], run_options: str = ""
    ) -> None:
        self.node, self.name = node, name
        node.put("/etc/cdi/nvidia.json", json.dumps(SPEC))
        self.client = node.root / "client" / name
        self.client.parent.mkdir()
        inside = shlex.join([*node.inside(), *command])
        choose = f'case $1 in run) shift; set -- run {run_options} "$@";; esac\n'
        self.client.write_text(f'#!/bin/sh\n{choose}exec {inside} "$@"\n')
        self.client.chmod(0o755)
        self.host = ToolHost(node, self.client)

    def build(self, files: Mapping[str, str]) -> None:
        """Have the image, with these files."""
        tar = self.node.root / "image.tar"
        tar.write_bytes(archive(files))
        self.ask("import", "--change=ENV PATH=/bin", str(tar), IMAGE)

    def ask(self, *args: str) -> str:
        """Return what the client answers."""
        return Host().run([str(self.client), *args]).out

    def containers(self) -> list[str]:
        """Return the names of all containers."""
        return self.ask("ps", "--all", "--format={{.Names}}").split()


@contextmanager
def podman_machine(root: Path) -> Iterator[ToolMachine]:
    """Have a machine with this machine's podman for the time of a with statement."""
    node = GenuineRuntimes(root, NEWEST)
    (root / "var/tmp").mkdir()
    (root / "var/run").symlink_to("/run")
    for name in ("passwd", "group"):
        node.put(f"/etc/{name}", Path("/etc", name).read_text())
    # Its locks are not those in /dev/shm, which it shares with the podman of the machine itself.
    node.put("/etc/containers/containers.conf", '[engine]\nlock_type = "file"\n')
    node.put("/etc/containers/policy.json", '{"default": [{"type": "insecureAcceptAnything"}]}')
    runc = shutil.which("runc", path="/usr/sbin:/usr/bin")
    command = ["podman", *MACHINE, f"--runtime={runc}"]
    yield ToolMachine(node, "podman", command, "--ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024")


@contextmanager
def docker_machine(root: Path) -> Iterator[ToolMachine]:
    """Have a machine with docker for the time of a with statement."""
    files = {"/etc/docker/daemon.json": '{"features": {"cdi": true}}'}
    with docker_unit.docker_unit(root, NEWEST, files) as node:
        client = genuine.program("docker-cli", "docker", NEWEST)
        yield ToolMachine(node, "docker", [str(client)])
