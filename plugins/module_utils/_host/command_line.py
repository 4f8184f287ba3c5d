# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernel's command line: what an IOMMU mode asks of it, and what boot loaders have of it."""

from __future__ import annotations

import re
import typing as t

from .._base.errors import NodeError
from .._base.text.kernel_parameters import parameter, split

Words = t.Tuple[str, ...]
PT, OFF = "pt", "off"
INTEL, AMD, ARM = "Intel", "AMD", "Arm"
VENDORS = {"GenuineIntel": INTEL, "AuthenticAMD": AMD, "HygonGenuine": AMD}
# As the kernel's kernel-parameters.txt has them. AMD's IOMMU is on where nothing says otherwise.
OPTIONS_BY_MODE: t.Mapping[t.Tuple[str, str], Words] = {
    (PT, INTEL): ("intel_iommu=on", "iommu=pt"),
    (PT, AMD): ("iommu=pt",),
    (PT, ARM): ("iommu.passthrough=1",),
    (OFF, INTEL): ("intel_iommu=off",),
    (OFF, AMD): ("amd_iommu=off",),
}
# What no later word takes back.
AGAINST_PT = ("iommu=off", "amd_iommu=off")
VENDOR = re.compile(r"^(?:vendor_id|CPU implementer)\s*:\s*(\S+)", re.M)
# The command line of an entry, of which the first is booted: in a grub.cfg, and as grubby --info=DEFAULT prints it.
GRUB = re.compile(r"^\s*linux(?:16|efi)?\s+\S+[ \t]+(.*)$", re.M)
GRUBBY = re.compile(r'^args="(.*)"$', re.M)
ENTRY = re.compile(r"^options[ \t]+(.*)$", re.M)
# What a boot loader and kernel-install add by themselves.
LOADERS_OWN = ("BOOT_IMAGE=", "initrd=", "systemd.machine_id=")


def parse_vendor(cpuinfo: str) -> str:
    """Return the vendor of the processor from /proc/cpuinfo, empty if it is another than those known."""
    match = VENDOR.search(cpuinfo)
    return "" if match is None else ARM if match[1].startswith("0x") else VENDORS.get(match[1], "")


def options_for_mode(mode: str, vendor: str) -> Words:
    """Return the kernel options for an IOMMU mode, none without a mode.

    Raises:
        NodeError: if no options are known for the mode on this processor.
    """
    if not mode:
        return ()
    if (mode, vendor) not in OPTIONS_BY_MODE:
        raise NodeError(
            f"iommu can't be {mode}",
            cause=f"no option of the kernel is known for it on {'Arm' if vendor == ARM else 'this processor'}",
            hint="set host_iommu to unmanaged" + (" or pt" if vendor == ARM else ""),
        )
    return OPTIONS_BY_MODE[mode, vendor]


def has_option(cmdline: t.Sequence[str], option: str) -> bool:
    """Return whether the kernel command line sets an option.

    The last occurrence of an option wins; its value may be a comma-separated list.
    """
    name, value = parameter(option)
    values = [each.value or "" for each in map(parameter, cmdline) if each.name == name]
    return bool(values) and (value or "") in values[-1].split(",")


def lacking(cmdline: t.Sequence[str], options: t.Iterable[str]) -> Words:
    """Return the options that a command line does not set."""
    return tuple(option for option in options if not has_option(cmdline, option))


def same_keys(cmdline: t.Iterable[str], options: t.Iterable[str]) -> Words:
    """Return the words of a command line that have the name of one of the options."""
    names = {parameter(word).name for word in options}
    return tuple(word for word in cmdline if parameter(word).name in names)


def parse(text: str, entry: t.Pattern[str]) -> t.Optional[Words]:
    """Return the command line of the first entry in a grub.cfg or in what grubby prints, None if there is none."""
    match = entry.search(text)
    return None if match is None else split(match[1])


def entries(texts: t.Iterable[str], machine_id: str) -> t.Optional[Words]:
    """Return the words that all entries of a machine have in common, None if there is no entry.

    ``texts`` are those of the files of systemd-boot; those of another system on the same disk have another machine-id.
    """
    lines = [
        split(" ".join(ENTRY.findall(text)))
        for text in texts
        if re.search(r"^linux\s", text, re.M)
        and re.search(rf"^machine-id\s+{re.escape(machine_id)}\s*$", text, re.M)
    ]
    if not lines:
        return None
    return tuple(word for word in lines[0] if all(has_option(line, word) for line in lines[1:]))


def edited(cmdline: t.Iterable[str], added: t.Iterable[str], removed: t.Collection[str]) -> Words:
    """Return a command line with words that are added at the end, and without others."""
    new = tuple(added)
    return (*(option for option in cmdline if option not in {*removed, *new}), *new)


def booted(cmdline: t.Iterable[str]) -> Words:
    """Return the command line of a running kernel without what its boot loader has added."""
    return tuple(option for option in cmdline if not option.startswith(LOADERS_OWN))
