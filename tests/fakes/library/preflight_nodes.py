# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A fresh Debian 13 node with GPUs, and file systems."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.gpu.node.plugins.module_utils._base.space import Space

from tests.fakes.library.fakes import OS_RELEASE, FakeHost

GIB = 1 << 30
H100 = "0x2330"
Look = Callable[..., str]


class FakeRoom:
    """File systems by their mount points; ``sizes`` are of files, ``listeners`` processes by their sockets."""

    def __init__(self) -> None:
        self.spaces = {"/": Space(1, 100 * GIB)}
        self.sizes: dict[str, int] = {}
        self.listeners: dict[str, int] = {}

    def space(self, folder: str) -> Space:
        return self.spaces[max((one for one in self.spaces if folder.startswith(one)), key=len)]

    def size(self, path: str) -> int:
        return self.sizes.get(path, 0)

    def listener(self, path: str) -> int | None:
        return self.listeners.get(path)


def node(*devices: str) -> FakeHost:
    """Return a node with GPUs of such device ids, before its first bring-up."""
    files = {
        "/etc/os-release": OS_RELEASE,
        "/etc/apt/sources.list.d/debian.sources": "Types: deb\n",
    }
    for number, device in enumerate(devices):
        folder = f"/sys/bus/pci/devices/0000:{0x18 + number:02x}:00.0"
        files |= {f"{folder}/vendor": "0x10de\n", f"{folder}/device": f"{device}\n"}
        files[f"{folder}/class"] = "0x030200\n"
    version = "containerd github.com/containerd/containerd 1.7.24 fcb1b6f"
    commands = {
        ("containerd", "--version"): version,
        ("apt-get",): "",
        ("python3",): "",
    }
    return FakeHost(files, commands)
