# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes with a boot loader each, whose programs do to files what the genuine ones do."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.capability import HostCapability
from ansible_collections.gpu.node.plugins.module_utils._host.machine.loaders import LOADER_INFO
from ansible_collections.gpu.node.plugins.module_utils._machine import run as runner
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.fakes import TRIXIE, FakeHost

DONE = Completed(0, "", "")
FIRST = "root=UUID=1 ro quiet"
GRUB_CFG = """\
menuentry 'Debian GNU/Linux' {{
	linux	/boot/vmlinuz-6.12.1 {}
	initrd	/boot/initrd.img-6.12.1
}}
submenu 'Advanced options' {{
	menuentry 'Debian GNU/Linux (recovery mode)' {{
		linux	/boot/vmlinuz-6.12.1 root=UUID=1 ro single
	}}
}}
"""
ENTRY = """\
title      Debian GNU/Linux
version    6.12.1
machine-id {0}
options    {1}
linux      /{0}/6.12.1/linux
"""
MACHINE_ID = "0123456789abcdef0123456789abcdef"
SETTINGS = ("iommu", "acs", "governor", "numa_balancing", "memlock")
PARAMS = {
    "state": "present",
    **dict.fromkeys(SETTINGS, "unmanaged"),
    "hugepages": {},
    "lock_timeout": 60,
}


class Killed(Exception):
    """The run was killed."""


class LoaderHost(FakeHost):
    """A node whose kernel is booted by ``boot``; it is killed before change number ``until``, if there is one."""

    def __init__(self, vendor: str = "GenuineIntel") -> None:
        super().__init__({**TRIXIE, "/proc/cpuinfo": f"processor\t: 0\nvendor_id\t: {vendor}\n"})
        self.files["/proc/sys/kernel/random/boot_id"] = "boot-0\n"
        self.boots, self.changes, self.until = 0, 0, -1
        self.set_up()
        self.boot()

    def set_up(self) -> None:
        """Write what an installer does."""

    def next(self) -> str:
        """Return what the next boot has."""
        raise NotImplementedError

    def boot(self) -> None:
        words = f"BOOT_IMAGE=/boot/vmlinuz-6.12.1 {self.next()}"
        self.boots += 1
        self.files["/proc/cmdline"] = f"{words}\n"
        self.files["/proc/sys/kernel/random/boot_id"] = f"boot-{self.boots}\n"
        for path in [one for one in self.files if one.startswith("/run/")]:
            del self.files[path]
        off = {"intel_iommu=off", "amd_iommu=off", "iommu=off"} & set(words.split())
        kind = "identity" if {"iommu=pt", "iommu.passthrough=1"} & set(words.split()) else "DMA-FQ"
        self.remove("/sys/kernel/iommu_groups")
        self.remove("/sys/bus/pci/devices/0000:18:00.0/iommu_group")
        if not off:
            self.files["/sys/kernel/iommu_groups/7/type"] = f"{kind}\n"
            self.files["/sys/bus/pci/devices/0000:18:00.0/iommu_group/type"] = f"{kind}\n"

    def _change(self) -> None:
        if self.changes == self.until:
            raise Killed
        self.changes += 1

    def write(self, path: str, text: str, **values: t.Any) -> t.Optional[str]:
        self._change()
        return super().write(path, text, **values)

    def remove(self, path: str) -> bool:
        if path.startswith(("/etc", "/var", "/run")):
            self._change()
        return super().remove(path)

    def run(self, argv: t.Sequence[str], **values: t.Any) -> Completed:
        if argv[0] in ("update-grub", "pbl", "kernel-install") or "ALL" in " ".join(argv):
            self._change()
        return super().run(argv, **values)


def first_entry(text: str) -> str:
    """Return the command line of the first entry of a grub.cfg."""
    line = next(one.strip() for one in text.splitlines() if one.strip().startswith("linux"))
    return line.split(maxsplit=2)[2]


class GrubHost(LoaderHost):
    """Debian: update-grub has the shell read /etc/default/grub, then the drop-ins."""

    def set_up(self) -> None:
        self.words = FIRST
        self.commands[("update-grub",)] = self._update
        self._update(())

    def _update(self, _argv: t.Tuple[str, ...]) -> Completed:
        text = self.files.get("/etc/default/grub.d/zz-gpu-node.cfg", "")
        line = text.splitlines()[-1] if text else ""
        more = line.partition("GRUB_CMDLINE_LINUX_DEFAULT ")[2].rstrip('"')
        self.files["/boot/grub/grub.cfg"] = GRUB_CFG.format(f"{self.words} {more}".strip())
        return DONE

    def next(self) -> str:
        return first_entry(self.files["/boot/grub/grub.cfg"])


class ReplacingHost(LoaderHost):
    """A loader whose program keeps one word of a name, in a list."""

    def set_up(self) -> None:
        self.words = [*FIRST.split(), "intel_iommu=off"]

    def add(self, word: str) -> None:
        key = word.partition("=")[0]
        same = [one for one in self.words if one.partition("=")[0] == key]
        if same:
            self.words[self.words.index(same[0])] = word
        else:
            self.words.append(word)

    def drop(self, word: str) -> None:
        self.words = [one for one in self.words if one != word]

    def next(self) -> str:
        return " ".join(self.words)


class GrubbyHost(ReplacingHost):
    """The RHEL family."""

    def set_up(self) -> None:
        super().set_up()
        self.commands[("grubby",)] = self._grubby

    def _grubby(self, argv: t.Tuple[str, ...]) -> Completed:
        if argv[1:] == ("--info=DEFAULT",):
            told = f'index=0\nkernel="/boot/vmlinuz-5.14.0"\nargs="{self.next()}"\nroot="UUID=1"\n'
            return Completed(0, told, "")
        assert argv[1] == "--update-kernel=ALL"
        option, _is, words = argv[2].partition("=")
        for word in words.split():
            {"--args": self.add, "--remove-args": self.drop}[option](word)
        return DONE


class PblHost(ReplacingHost):
    """SUSE."""

    def set_up(self) -> None:
        super().set_up()
        self.commands[("pbl",)] = self._pbl
        self._pbl(("pbl", "--config"))

    def _pbl(self, argv: t.Tuple[str, ...]) -> Completed:
        if argv[1] == "--config":
            self.files["/boot/grub2/grub.cfg"] = GRUB_CFG.format(" ".join(self.words))
        else:
            {"--add-option": self.add, "--del-option": self.drop}[argv[1]](argv[2])
        return DONE

    def next(self) -> str:
        return first_entry(self.files["/boot/grub2/grub.cfg"])


class SystemdBootHost(LoaderHost):
    """systemd-boot, with the hooks of Debian or Fedora, and another system on the same disk."""

    entry = f"/boot/efi/loader/entries/{MACHINE_ID}-6.12.1.conf"

    def set_up(self) -> None:
        self.files["/etc/machine-id"] = f"{MACHINE_ID}\n"
        self.files["/proc/cmdline"] = f"initrd=x {FIRST}\n"
        self.files[LOADER_INFO] = "\x06\0\0\0" + "\0".join("systemd-boot 257\0")
        self.files["/boot/vmlinuz-6.12.1"] = ""
        self.files["/boot/efi/loader/entries/other.conf"] = ENTRY.format("f" * 32, "root=/dev/sdb1")
        self.commands[("kernel-install",)] = self._install
        self._install(("kernel-install", "add", "6.12.1", "/boot/vmlinuz-6.12.1"))

    def _install(self, argv: t.Tuple[str, ...]) -> Completed:
        assert argv[1:] == ("add", "6.12.1", "/boot/vmlinuz-6.12.1")
        running = self.files["/proc/cmdline"].split()
        words = self.files.get("/etc/kernel/cmdline") or " ".join(
            one for one in running if not one.startswith(("initrd=", "BOOT_IMAGE="))
        )
        self.files[self.entry] = ENTRY.format(MACHINE_ID, words.strip())
        return DONE

    def next(self) -> str:
        text = self.files[self.entry]
        return next(
            one.split(maxsplit=1)[1] for one in text.splitlines() if one.startswith("options")
        )


LOADERS = (GrubHost, GrubbyHost, PblHost, SystemdBootHost)


def run(host: FakeHost, *, check: bool = False, **params: t.Any) -> t.Dict[str, t.Any]:
    """Run the module as its main() does, and return what it answers."""
    capability = HostCapability(host, {**PARAMS, **params})  # type: ignore[arg-type]
    return runner._converge(check, True, runner.with_own_files(capability), [])


def finished(host: LoaderHost, at: int, **params: t.Any) -> bool:
    """Run the module, which is killed before its change number ``at``; tell whether it was done before."""
    host.until, host.changes = at, 0
    try:
        run(host, **params)
    except Killed:
        return False
    finally:
        host.until = -1
    return True


def refused(host: FakeHost, **params: t.Any) -> NodeError:
    """Return why the module refuses, before it changes anything."""
    before = dict(host.files)
    try:
        run(host, **params)
    except NodeError as error:
        assert host.files == before
        return error
    raise AssertionError("it was not refused")
