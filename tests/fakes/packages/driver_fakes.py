# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Stand-ins for a machine with the driver on it, and for its NVML."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.gpu import (
    GPU_IS_LOST,
    Gpu,
    MigDevice,
    NvmlError,
    Process,
)

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.gpu_values import minors_text

CDI_SPEC = "/etc/cdi/nvidia.yaml"
VERSION = "550.163.01"
LIB = "/usr/lib/x86_64-linux-gnu"
CURRENT = f"{LIB}/nvidia/current"


class FakeNvml:
    """NVML with these GPUs; those in ``lost`` fail when their MIG devices are read."""

    def __init__(self, *gpus: Gpu, migs: tuple[MigDevice, ...] = ()) -> None:
        self.found, self.migs = list(gpus), migs
        self.lost: set[int] = set()
        self.broken: list[NvmlError] = []
        self.loaded: list[str] = []
        self.running: list[Process] = []

    @contextlib.contextmanager
    def opened(self, library: str = "") -> Iterator[FakeNvml]:
        """Stand in for open_nvml."""
        self.loaded.append(library)
        yield self

    def driver_version(self) -> str:
        return VERSION

    def gpus(self) -> tuple[list[Gpu], list[NvmlError]]:
        return list(self.found), list(self.broken)

    def mig_devices(self, parent: Gpu) -> list[MigDevice]:
        if parent.index in self.lost:
            raise NvmlError(GPU_IS_LOST, "listing MIG devices")
        return [one for one in self.migs if one.gpu_uuid == parent.uuid]

    def processes(self, parent: Gpu) -> list[Process]:
        return [one for one in self.running if one.gpu_uuid == parent.uuid]


class HostWithDriver(FakeHost):
    """The driver's packages of Debian 13: files in nvidia/current, reached through alternatives."""

    def __init__(self, root: str = "") -> None:
        super().__init__()
        self.root = root
        for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1"):
            self.files[f"{root}/dev/{name}"] = ""
        self.files[f"{root}/proc/driver/nvidia-caps/mig-minors"] = minors_text(0, 1)
        lines = ["\tlibc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6"]
        self.links[f"{root}/lib"] = "usr/lib"
        self.links[f"{root}/bin"] = "usr/bin"
        for stem in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
            name, file = f"{stem}.so.1", f"{stem}.so.{VERSION}"
            self.files[f"{root}{CURRENT}/{file}"] = ""
            self.links[f"{root}{CURRENT}/{name}"] = file
            self.links[f"{root}/etc/alternatives/{name}"] = f"{CURRENT}/{name}"
            self.links[f"{root}{LIB}/{name}"] = f"/etc/alternatives/{name}"
            lines.append(f"\t{name} (libc6,x86-64) => /lib/x86_64-linux-gnu/{name}")
        # These are not in the loader's cache under a name that tells of the driver.
        self.files[f"{root}{CURRENT}/libnvidia-cfg.so.{VERSION}"] = ""
        self.links[f"{root}{CURRENT}/libnvidia-cfg.so.1"] = f"libnvidia-cfg.so.{VERSION}"
        self.files[f"{root}{LIB}/libnvidia-pkcs11-openssl3.so.{VERSION}"] = ""
        # These belong to somebody else, or lead nowhere.
        self.files[f"{root}{LIB}/libm.so.6"] = ""
        self.files[f"{root}{CURRENT}/libcuda.so.535.1"] = ""
        self.links[f"{root}{LIB}/libgone.so.{VERSION}"] = "nowhere"
        self.files[f"{root}/usr/lib/nvidia/current/nvidia-smi"] = ""
        self.links[f"{root}/etc/alternatives/nvidia-smi"] = "/usr/lib/nvidia/current/nvidia-smi"
        self.links[f"{root}/usr/bin/nvidia-smi"] = "/etc/alternatives/nvidia-smi"
        self.links[f"{root}/usr/bin/nvidia-debugdump"] = "/etc/alternatives/nvidia-debugdump"
        self.files[f"{root}/usr/sbin/nvidia-cuda-mps-server"] = ""
        self.files[f"{root}/run/nvidia-persistenced/socket"] = ""
        cache = ("-C", f"{root}/etc/ld.so.cache") if root else ()
        self.commands[("ldconfig", "-p", *cache)] = "\n".join(lines) + "\n"

    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = json.loads(self.files[CDI_SPEC])
        return spec

    def names(self) -> list[str]:
        return [one["name"] for one in self.spec()["devices"]]

    def mounts(self) -> dict[str, str]:
        mounts = self.spec()["containerEdits"]["mounts"]
        return {one["containerPath"]: one["hostPath"] for one in mounts}
