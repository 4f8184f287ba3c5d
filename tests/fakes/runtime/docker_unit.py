# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine dockerd as the unit docker.service of a machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.unix_http import _Connection
from ansible_collections.gpu.node.plugins.module_utils._runtime.start_command import (
    environment_file,
)

from tests.fakes.runtime import cri
from tests.fakes.runtime.daemon_unit import DaemonUnit, started
from tests.support.waiting import LIMIT

SLEEP = ["/bin/sleep", "98765"]
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

    def post(self, target: str, data: bytes = b"", kind: str = "application/json") -> None:
        """Have dockerd do something."""
        connection = _Connection(self.at(SOCKET), LIMIT)
        connection.request("POST", target, data, {"Content-Type": kind})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.status < 300, text

    def import_image(self) -> None:
        """Have an image that has a sleep."""
        self.post("/images/create?fromSrc=-&repo=idle", cri.tree(), "application/x-tar")

    def start_container(self, name: str, user: str = "", **asked: Any) -> None:
        """Start a container that sleeps; what it asks for is of the API's HostConfig."""
        host = {"NetworkMode": "none", **asked}
        config = {"Image": "idle", "Cmd": SLEEP, "StopTimeout": 1, "User": user, "HostConfig": host}
        self.post(f"/containers/create?name={name}", json.dumps(config).encode())
        self.post(f"/containers/{name}/start")

    def running(self) -> set[str]:
        """Return the names of the containers of which dockerd says that they run."""
        containers = Host.ask(self, self.at(SOCKET), "/containers/json")
        return {one["Names"][0].lstrip("/") for one in containers}

    def end(self, *names: str) -> None:
        """Kill containers."""
        for name in names:
            self.post(f"/containers/{name}/kill")

    def end_containers(self) -> None:
        self.end(*self.running())


@contextmanager
def docker_unit(root: Path, suite: str, files: dict[str, str]) -> Iterator[DockerUnit]:
    """Have such a machine, whose dockerd runs, for the time of a with statement."""
    with started(DockerUnit(root, suite, files)) as node:
        yield node
