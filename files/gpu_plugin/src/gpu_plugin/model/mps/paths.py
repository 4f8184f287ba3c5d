# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where the files of a device's MPS daemon are. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..._shared._base.errors import InputError

PROGRAM: Final = "nvidia-cuda-mps-control"
ROOT: Final = "/run/gpu-node/mps"
SETTINGS: Final = ROOT  # of the units; what is here is written again after a boot
UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Where CUDA looks by itself, so that a client that drops the variable still finds the daemon.
PIPE_IN_CONTAINER: Final = "/tmp/nvidia-mps"
SHM_IN_CONTAINER: Final = "/dev/shm"
LONGEST_SOCKET: Final = 107
OWN_LENGTH: Final = 10  # of the name of a control daemon's own directory
PLAIN: Final = re.compile(r"/[A-Za-z0-9/._+@:-]*")


@dataclass(frozen=True)
class Names:
    """The paths of one device's daemon."""

    device: str
    root: str = ROOT

    def __post_init__(self) -> None:
        if not UUID.fullmatch(self.device):
            raise InputError.of("device", self.device, "a UUID such as GPU-... or MIG-...")
        if _longest_socket(self.ipc) > LONGEST_SOCKET:
            raise InputError.of("root", self.root, "a shorter path, sockets are below it")

    @property
    def folder(self) -> str:
        return f"{self.root}/{self.device}"

    @property
    def ipc(self) -> str:
        """A small file system: the own directory of the control daemon, and ``pipe`` beside it."""
        return f"{self.folder}/ipc"

    @property
    def pipe(self) -> str:
        """The directory that containers get: what clients need of the daemon's own, and no more."""
        return f"{self.ipc}/pipe"

    @property
    def log(self) -> str:
        return f"{self.folder}/log"

    @property
    def shm(self) -> str:
        return f"{self.folder}/shm"

    @property
    def status(self) -> str:
        return f"{self.root}/{self.device}.json"


def settings_file(device: str, folder: str = SETTINGS) -> str:
    """Return the path of a device's settings. The file is there while the device is shared."""
    return f"{folder}/{device}.settings.json"


def problem_of_root(root: str) -> str:
    """Return what is expected instead of a root, empty if it is valid."""
    if not PLAIN.fullmatch(root):
        return "a path of letters, digits and /._+@:-"
    if ".." in root.split("/"):
        return "a path without .."
    if _longest_socket(f"{root}/MIG-{'0' * 36}/ipc") > LONGEST_SOCKET:
        return "a shorter path, sockets are below it"
    return ""


def _longest_socket(ipc: str) -> int:
    return len(f"{ipc}/{'0' * OWN_LENGTH}/control_privileged")


def daemon_environment(names: Names, own: str) -> dict[str, str]:
    """Return the variables of the control daemon and of its clients; ``own`` is its own directory."""
    return {
        "CUDA_VISIBLE_DEVICES": names.device,
        "CUDA_MPS_PIPE_DIRECTORY": own,
        "CUDA_MPS_LOG_DIRECTORY": names.log,
    }
