# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine dockerd as the unit docker.service of a machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._runtime.start_command import (
    environment_file,
)

from tests.fakes.runtime.daemon_unit import DaemonUnit, started

OPTIONS = "/etc/default/docker"
SOCKET = "/var/run/docker.sock"
# What a machine without networks and disks of its own lets a daemon do.
COMMAND = "/usr/sbin/dockerd --bridge=none --iptables=false --ip6tables=false --storage-driver=vfs"


class DockerUnit(DaemonUnit):
    """A machine whose docker.service starts dockerd with the options of /etc/default/docker."""

    unit = "docker.service"
    command = f"{COMMAND} $DOCKER_OPTS"

    def __init__(self, root: Path, suite: str, files: dict[str, str] | None = None) -> None:
        super().__init__(root, suite, files)
        self.install_docker()
        self.put(
            "/tools/docker-init", "#!/bin/sh\necho tini version 0.19.0\n"
        )  # it warns at each question where it has none
        (root / "tools/docker-init").chmod(0o755)

    def _properties(self) -> Iterator[str]:
        yield from super()._properties()
        yield f"EnvironmentFiles={OPTIONS} (ignore_errors=yes)"

    def environment(self) -> dict[str, str]:
        return environment_file(self.read(OPTIONS) or "")

    def answers_clients(self) -> bool:
        return bool(Host.ask(self, self.at(SOCKET), "/info"))


@contextmanager
def docker_unit(root: Path, suite: str, files: dict[str, str]) -> Iterator[DockerUnit]:
    """Have such a machine, whose dockerd runs, for the time of a with statement."""
    with started(DockerUnit(root, suite, files)) as node:
        yield node
