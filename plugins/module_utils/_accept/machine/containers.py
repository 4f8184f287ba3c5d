# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Containers of tools, each of an image that is on the node: without a network, and removed at the end.

Nothing is pulled: a test stops services and keeps GPUs idle, and a pull can take longer than all of it.
"""

from __future__ import annotations

import os
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from ..plan import ToolSource
from ..tools.findings import ToolRun
from .commands import Commands

PODMAN, _DOCKER, NERDCTL = RUNTIMES = ("podman", "docker", "nerdctl")
NAME = "gpu-node-accept"
CDI_KIND = "nvidia.com/gpu"
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
# What NVIDIA's runtime would add for the image's own NVIDIA_VISIBLE_DEVICES, beside the devices by CDI.
NO_OTHERS = "NVIDIA_VISIBLE_DEVICES=void"
SHARED_MEMORY = "1g"  # NCCL's, where GPUs can't access each other
CLIENT_SECONDS = 60.0  # to look for an image, and to remove a container


class ToolContainer:
    """A tool in containers of its image, each with the same GPUs and no others.

    Args:
        host: The machine.
        name: The tool's name.
        source: Its image, and its path there.
        uuids: The GPUs.

    Raises:
        NodeError: if nothing can run a container of the image with the GPUs; its text says what helps.
    """

    def __init__(self, host: Host, name: str, source: ToolSource, uuids: t.Sequence[str]) -> None:
        self._commands = Commands(host)
        self._source, self._entrypoint = source, source.path or name
        self._name = f"{NAME}-{name}"
        self._runtime = self._find_runtime(host)
        self._devices = self._device_options(host, uuids)

    def run(
        self,
        args: t.Sequence[str],
        environment: t.Mapping[str, str],
        seconds: float,
        folder: str = "",
    ) -> ToolRun:
        """Run the tool in a new container, which is killed after so many seconds.

        Args:
            args: The tool's arguments.
            environment: What its environment has besides that of the image.
            seconds: Its limit.
            folder: A folder that the container has at the same path, if any.
        """
        self._remove()  # what a run that was killed has left
        argv = [self._runtime, "run", "--rm", f"--name={self._name}", "--pull=never"]
        argv += ["--network=none", "--user=0:0", f"--shm-size={SHARED_MEMORY}", "--stop-timeout=0"]
        argv += ["--security-opt=label=disable", "--security-opt=no-new-privileges"]
        argv += [*self._devices, *(f"--env={name}={value}" for name, value in environment.items())]
        argv += [f"--volume={folder}:{folder}"] if folder else []
        argv += [f"--entrypoint={self._entrypoint}", self._source.image, *args]
        run = ToolRun(None)
        try:
            run = self._commands.run(argv, seconds)
        finally:
            # The client alone was killed, and has left its container.
            removed = run.status is not None or self._remove()
        left = "" if removed else f", and its container {self._name} can't be removed"
        return run._replace(problem=run.problem + left)

    def _remove(self) -> bool:
        argv = [self._runtime, "rm", "--force", self._name]
        return self._commands.run(argv, CLIENT_SECONDS).status == 0

    def _find_runtime(self, host: Host) -> str:
        """Return the program of the first runtime that has the image."""
        programs = [path for path in map(host.which, RUNTIMES) if path]
        if not programs:
            raise NodeError(
                f"none of {', '.join(RUNTIMES)} is installed, to run its image: name its path in tools"
            )
        for program in programs:
            argv = [program, "image", "inspect", self._source.image]
            if self._commands.run(argv, CLIENT_SECONDS).status == 0:
                return program
        pull = f"{os.path.basename(programs[0])} pull {self._source.image}"
        raise NodeError(f"its image is not on the node: run {pull} there")

    def _device_options(self, host: Host, uuids: t.Sequence[str]) -> t.List[str]:
        runtime = os.path.basename(self._runtime)
        paths = (f"{folder}/{name}" for folder in CDI_FOLDERS for name in host.listdir(folder))
        texts = [text for text in map(host.read, paths) if text and CDI_KIND in text]
        named = any(all(uuid in text for uuid in uuids) for text in texts)
        if named and runtime != NERDCTL:  # not all of its releases know CDI
            return [f"--env={NO_OTHERS}", *(f"--device={CDI_KIND}={uuid}" for uuid in uuids)]
        if runtime == PODMAN:
            raise NodeError(
                "no CDI specification has the GPUs by their UUIDs: run the role gpu.node.cdi"
            )
        return [f'--gpus="device={",".join(uuids)}"']
