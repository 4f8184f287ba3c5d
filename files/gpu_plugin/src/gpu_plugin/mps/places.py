# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the files of a device's MPS daemon are, and what a container gets of them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .._shared._core.errors import InputError
from .shares import Shares
from .words import DEVICE

ROOT: Final = "/run/gpu-node/mps"
ENVIRONMENT: Final = ROOT  # of the units; what is here is written anew after a boot
UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Where CUDA looks by itself, so that a client that drops the variable still finds the daemon.
PIPE_IN_CONTAINER: Final = "/tmp/nvidia-mps"
SHM_IN_CONTAINER: Final = "/dev/shm"
LONGEST_SOCKET: Final = 107
PLAIN: Final = re.compile(r"/[A-Za-z0-9/._+@:-]*")


@dataclass(frozen=True)
class Names:
    """The paths of one device's daemon."""

    device: str
    root: str = ROOT

    def __post_init__(self) -> None:
        if not UUID.fullmatch(self.device):
            raise InputError.of("device", self.device, "a UUID such as GPU-... or MIG-...")
        if len(f"{self.pipe}/control_privileged") > LONGEST_SOCKET:
            raise InputError.of("root", self.root, "a shorter path, sockets are below it")

    @property
    def folder(self) -> str:
        return f"{self.root}/{self.device}"

    @property
    def pipe(self) -> str:
        return f"{self.folder}/pipe"

    @property
    def log(self) -> str:
        return f"{self.folder}/log"

    @property
    def shm(self) -> str:
        return f"{self.folder}/shm"

    @property
    def status(self) -> str:
        return f"{self.root}/{self.device}.json"

    @property
    def state(self) -> str:
        return f"{self.root}/{self.device}.state"

    @property
    def lock(self) -> str:
        return f"{self.root}/{self.device}.lock"


def environment_file(device: str, folder: str = ENVIRONMENT) -> str:
    """Return where the options of a device's manager are. It is there while the device is shared."""
    return f"{folder}/{device}.env"


def problem_of_root(root: str) -> str:
    """Return what is expected instead of a root, empty where it is good."""
    if not PLAIN.fullmatch(root):
        return "a path of letters, digits and /._+@:-"
    if len(f"{root}/MIG-{'0' * 36}/pipe/control_privileged") > LONGEST_SOCKET:
        return "a shorter path, sockets are below it"
    return ""


def daemon_environment(names: Names) -> dict[str, str]:
    """Return what the control daemon and those who ask it need."""
    return {
        "CUDA_VISIBLE_DEVICES": names.device,
        "CUDA_MPS_PIPE_DIRECTORY": names.pipe,
        "CUDA_MPS_LOG_DIRECTORY": names.log,
    }


@dataclass(frozen=True)
class Part:
    """What a container gets with its shares: environment and (container path, host path) pairs."""

    envs: dict[str, str]
    mounts: tuple[tuple[str, str], ...]


def part(names: Names, shares: Shares, count: int, *, own_shm: bool = True) -> Part:
    """Return what a container with so many shares of a device gets.

    ``own_shm``: the daemon has a shm of its own, rather than the node's.
    """
    bounds = shares.of(count)
    return Part(
        {
            "CUDA_MPS_PIPE_DIRECTORY": PIPE_IN_CONTAINER,
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{DEVICE}={bounds.memory_mib}M",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{bounds.threads:g}",
        },
        (
            (PIPE_IN_CONTAINER, names.pipe),
            (SHM_IN_CONTAINER, names.shm if own_shm else SHM_IN_CONTAINER),
        ),
    )
