# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How kernel command lines are written: by each boot loader's own way, which adds to what there is."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError
from ..._base.text.kernel_parameters import split
from ..._machine.host import Host
from .. import command_line
from ..command_line import Words

HEADER = "# Written by gpu.node.host.\n"
DROP_IN = "/etc/default/grub.d/zz-gpu-node.cfg"
NAME = "GRUB_CMDLINE_LINUX_DEFAULT"
LOADER_INFO = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
KERNEL_COMMAND_LINE = "/etc/kernel/cmdline"
ENTRIES = tuple(f"{folder}/loader/entries" for folder in ("/boot", "/efi", "/boot/efi"))
IMAGES = ("/boot/vmlinuz-{}", "/lib/modules/{}/vmlinuz")


class Loader:
    """A boot loader. ``replaces`` tells that its program keeps one word of a name only."""

    name = ""
    replaces = False

    def __init__(self, host: Host) -> None:
        self._host = host

    def cmdline(self) -> t.Optional[Words]:
        """Return what the next boot has, None if that can't be read."""
        raise NotImplementedError

    def keeps(self, added: Words) -> bool:
        """Return whether the entries of kernels to come get what was added, as far as a file of somebody's decides."""
        return True

    def write(self, added: Words, add: Words, remove: Words) -> None:
        """Add and remove words; ``added`` are those that are ours then."""
        raise NotImplementedError


class Grub(Loader):
    """GRUB as Debian and Ubuntu have it: a drop-in adds, and update-grub reads it."""

    name = "GRUB (/etc/default/grub)"

    def cmdline(self) -> t.Optional[Words]:
        text = self._host.read("/boot/grub/grub.cfg") or ""
        return command_line.parse(text, command_line.GRUB)

    def keeps(self, added: Words) -> bool:
        return not added or self._host.read(DROP_IN) == self._text(added)

    def write(self, added: Words, add: Words, remove: Words) -> None:
        if added:
            self._host.write(DROP_IN, self._text(added), mode=0o644)
        else:
            self._host.remove(DROP_IN)
        self._host.run(["update-grub"])

    @staticmethod
    def _text(added: Words) -> str:
        return f'{HEADER}{NAME}="${NAME} {" ".join(added)}"\n'


class Grubby(Loader):
    """Any loader of the RHEL family, for the kernels that there are and those to come."""

    name = "GRUB (grubby)"
    replaces = True

    def cmdline(self) -> t.Optional[Words]:
        text = self._host.run(["grubby", "--info=DEFAULT"], check=False).out
        return command_line.parse(text, command_line.GRUBBY)

    def write(self, added: Words, add: Words, remove: Words) -> None:
        for option, options in (("--remove-args", remove), ("--args", add)):
            if options:
                self._host.run(["grubby", "--update-kernel=ALL", f"{option}={' '.join(options)}"])


class Pbl(Loader):
    """GRUB as SUSE has it, whose own program changes the one line of /etc/default/grub."""

    name = "GRUB (pbl)"
    replaces = True

    def cmdline(self) -> t.Optional[Words]:
        text = self._host.read("/boot/grub2/grub.cfg") or ""
        return command_line.parse(text, command_line.GRUB)

    def write(self, added: Words, add: Words, remove: Words) -> None:
        for option, options in (("--del-option", remove), ("--add-option", add)):
            for value in options:
                self._host.run(["pbl", option, value])
        self._host.run(["pbl", "--config"])


class SystemdBoot(Loader):
    """systemd-boot, whose entries kernel-install writes by /etc/kernel/cmdline."""

    name = f"systemd-boot ({KERNEL_COMMAND_LINE})"

    def cmdline(self) -> t.Optional[Words]:
        machine_id = (self._host.read("/etc/machine-id") or "").strip()
        paths = [f"{entries}/{name}" for entries in ENTRIES for name in self._host.listdir(entries)]
        texts = (self._host.read(path) or "" for path in paths if path.endswith(".conf"))
        return command_line.entries(texts, machine_id)

    def keeps(self, added: Words) -> bool:
        return not command_line.lacking(self._source(), added)

    def _source(self) -> Words:
        text = self._host.read(KERNEL_COMMAND_LINE)
        if text is None:  # what kernel-install takes then
            return command_line.booted(split(self._host.read("/proc/cmdline") or ""))
        return split(text)

    def write(self, added: Words, add: Words, remove: Words) -> None:
        new = command_line.edited(self._source(), add, remove)
        self._host.write(KERNEL_COMMAND_LINE, " ".join(new) + "\n")
        for kernel in self._host.listdir("/lib/modules"):
            images = (form.format(kernel) for form in IMAGES)
            image = next((form for form in images if self._host.exists(form)), None)
            if image is not None:
                self._host.run(["kernel-install", "add", kernel, image])


def find(host: Host) -> t.Tuple[t.Optional[Loader], Words, str]:
    """Return the boot loader with what the next boot has; None if it is not known, and then why."""
    by_program = (("grubby", Grubby), ("pbl", Pbl), ("update-grub", Grub))
    booted_by = (host.read_bytes(LOADER_INFO) or b"").replace(b"\0", b"")  # it is UTF-16
    loader: t.Optional[Loader] = SystemdBoot(host)
    if b"systemd-boot" not in booted_by or host.which("pbl") is not None:
        loader = next((make(host) for name, make in by_program if host.which(name)), None)
    if loader is None:
        programs = "update-grub, grubby, pbl and systemd-boot"
        return None, (), f"it has none of {programs}"
    try:
        cmdline = loader.cmdline()
    except NodeError as error:
        return None, (), str(error)
    if cmdline is None:
        return None, (), f"{loader.name} is there, and no entry of it that boots Linux was found"
    return loader, cmdline, ""
