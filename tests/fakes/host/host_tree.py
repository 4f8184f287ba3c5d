# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A host in a folder, with bridges whose configurations are bytes in files, and the node's own shell."""

from __future__ import annotations

import struct
import typing as t
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host

from tests.fakes.host.host_nodes import Killed
from tests.fakes.played.rooted import Rooted

GPU, NIC, DISK = ("0x10de", "0x030200"), ("0x15b3", "0x020700"), ("0x144d", "0x010802")
BRIDGE = ("0x1000", "0x060400")
SWITCH = "pci0000:15/0000:15:01.0/0000:16:00.0"  # a root port, and the upstream port of a switch
PLACES = {
    f"{SWITCH}/0000:17:00.0/0000:18:00.0": GPU,
    f"{SWITCH}/0000:17:01.0/0000:19:00.0": NIC,
    "pci0000:15/0000:15:02.0/0000:1a:00.0": DISK,
    "pci0000:00/0000:00:1f.0": DISK,
}
ABOVE = ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0", "0000:17:01.0"]


def capabilities(*listed: tuple[int, int], size: int = 4096) -> bytearray:
    """Return a configuration whose extended capabilities are at these places, in this order, by their IDs."""
    found = bytearray(size)
    places = [at for at, _id in listed] + [0]
    for (at, number), after in zip(listed, places[1:], strict=True):
        struct.pack_into("<I", found, at, after << 20 | 1 << 16 | number)
    return found


class HostTree(Rooted):
    """A bare machine with a GPU and a NIC below a switch, and a disk beside it."""

    def __init__(self, root: Path, control: int = 0x1D) -> None:
        self.until, self.changes = -1, 0  # it is killed before this change
        super().__init__(root, "ID=debian\n", "6.12.1", "0x2330")
        self.remove("/sys/bus/pci/devices/0000:18:00.0")
        for path, ids in PLACES.items():
            parts = path.split("/")
            for number in range(2, len(parts)):
                self.device("/".join(parts[:number]), BRIDGE, control)
            self.device(path, ids, None)
        self.put("proc/meminfo", "MemTotal:       67108864 kB\n")
        self.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n")
        self.put("proc/sys/kernel/numa_balancing", "1\n")
        for number in (0, 1):
            policy = f"sys/devices/system/cpu/cpufreq/policy{number}"
            self.put(f"{policy}/scaling_governor", "schedutil\n")

    def device(self, path: str, ids: tuple[str, str], control: int | None) -> None:
        folder = self.root / "sys/devices" / path
        if folder.is_dir() and (folder / "vendor").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vendor").write_text(f"{ids[0]}\n")
        (folder / "class").write_text(f"{ids[1]}\n")
        config = capabilities((0x100, 1), (0x148, 0xD))
        if control is None:
            config = capabilities((0x100, 1))
        else:
            struct.pack_into("<H", config, 0x14E, control)
        (folder / "config").write_bytes(bytes(config))
        link = self.root / "sys/bus/pci/devices" / folder.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)

    def controls(self) -> dict[str, int]:
        """Return each bridge's control register."""
        found = {}
        for path in sorted((self.root / "sys/bus/pci/devices").iterdir()):
            config = (path / "config").read_bytes()
            if struct.unpack_from("<I", config, 0x148)[0]:
                found[path.name] = struct.unpack_from("<H", config, 0x14E)[0]
        return found

    def _change(self) -> None:
        if self.changes == self.until:
            raise Killed
        self.changes += 1

    def write(self, path: str, text: str, **values: t.Any) -> t.Any:
        self._change()
        return super().write(path, text, **values)

    def remove(self, path: str) -> bool:
        self._change()
        return super().remove(path)

    def run(self, argv: t.Sequence[str], **values: t.Any) -> Completed:
        words = [
            self.at(one) if one.startswith(("/sys", "/proc")) else one for one in map(str, argv)
        ]
        if {"put", "acs_set", "daemon-reload", "enable", "disable"} & set(words):
            self._change()
        if words[:2] == ["/bin/sh", "-c"]:
            return Host.run(self, words, env={"GPU_NODE_ROOT": str(self.root)})
        return super().run(argv, **values)

    def which(self, name: str) -> str | None:
        return name if name == "/bin/sh" else super().which(name)

    def boot_program(self) -> Completed:
        """Run what the unit runs."""
        path = self.at("/etc/gpu-node/host")
        return Host.run(self, ["/bin/sh", path], env={"GPU_NODE_ROOT": str(self.root)}, check=False)

    def lose(self) -> None:
        """Lose what a reboot loses."""
        for path in (self.root / "sys/bus/pci/devices").iterdir():
            config = bytearray((path / "config").read_bytes())
            if struct.unpack_from("<I", config, 0x148)[0]:
                struct.pack_into("<H", config, 0x14E, 0x1D)
                (path / "config").write_bytes(bytes(config))
        for path in (self.root / "sys/devices/system/cpu/cpufreq").iterdir():
            (path / "scaling_governor").write_text("schedutil\n")
