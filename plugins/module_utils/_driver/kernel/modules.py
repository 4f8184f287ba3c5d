# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernel's side of the driver: what DKMS has built, nouveau, the options of the modules, Secure Boot."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.errors import NodeError
from ..._base.text import kernel_parameters
from ..module_options.declared import Options
from ..module_options.in_force import Other

HEADER = "# Written by gpu.node.nvidia_driver.\n"
NOUVEAU = "blacklist nouveau\noptions nouveau modeset=0\n"
LOG_HEAD = re.compile(r"^DKMS .*make\.log for (\S+) for kernel (\S+)")
KO = r"nvidia(?:-current(?:-open)?|-tesla-\d+|-legacy-\d+xx)?\.ko(?:\.\w+)?"
DRIVER = re.compile(rf"^(?:\S+/)?{KO}:", re.M)
# What counts in the list of an initramfs: the driver, nouveau, and our file.
IN_INITRAMFS = re.compile(rf"/(?:{KO}|nouveau\.ko(?:\.\w+)?|modprobe\.d/gpu-node\.conf)\s*$", re.M)
TAIL_LINES = 20
TAIL_WIDTH = 300
NO_SOURCES = "without sources"


class Dkms(t.NamedTuple):
    """What DKMS has for a kernel; ``state`` is installed, built or failed, or without sources, and so for none."""

    module: str
    version: str
    kernel: str
    state: str
    log: str = ""

    def describe(self) -> t.Dict[str, str]:
        """Return the build for users."""
        return {key: value for key, value in self._asdict().items() if value}


@dataclasses.dataclass(frozen=True)
class Modules:
    """What decides about the kernel's modules.

    Attributes:
        own: The text of our modprobe file.
        foreign: Whether somebody else has a file of that name.
        nouveau: Whether some kernel has nouveau.
        blacklisted: Whether something else keeps nouveau from being loaded.
        images: The kernels with an initramfs that can be rebuilt.
        stale: Those of them whose initramfs is older than our file, or may still have what was in it.
        spared: Those whose initramfs has nothing to do with our file.
        options: The options that the loaded modules show.
        bare: The bootable kernels that have no module of the driver.
        kernels: The bootable kernels.
        overruled: Options that something else sets otherwise, which wins at the next load.
        itself: Options that are not known here and that modules declare themselves, with their versions.
        present: The modules of the driver that are loaded.
        kept_away: What keeps the driver from being loaded, by file, or the kernel's command line.
    """

    own: t.Optional[str] = None
    foreign: bool = False
    nouveau: bool = False
    blacklisted: bool = False
    images: t.Tuple[str, ...] = ()
    stale: t.Tuple[str, ...] = ()
    spared: t.Tuple[str, ...] = ()
    options: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    bare: t.Tuple[str, ...] = ()
    kernels: t.Tuple[str, ...] = ()
    overruled: t.Mapping[str, Other] = dataclasses.field(default_factory=dict)
    itself: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    present: t.Tuple[str, ...] = ()
    kept_away: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


def render(options: Options, *, nouveau: bool, current: bool) -> str:
    """Return the text of our modprobe file, empty if it has nothing to set.

    ``current`` adds the names that the modules have in Debian, nvidia-current and the like.
    """
    lines = []
    for name, value in options:
        module, option = name.split(".", 1)
        written = kernel_parameters.write(option, value)
        lines += [f"options {spelling} {written}\n" for spelling in names(module, current=current)]
    text = (NOUVEAU if nouveau else "") + "".join(lines)
    return HEADER + text if text else ""


def names(module: str, *, current: bool) -> t.List[str]:
    """Return the names of a module of the driver; ``current`` adds its name in Debian."""
    debians = module.replace("nvidia", "nvidia-current", 1).replace("_", "-")
    return [module, debians] if current else [module]


def driver_files(dependencies: str) -> t.List[str]:
    """Return the paths of the driver's main module in a kernel's modules.dep, by the names in distributions."""
    return [match[0].rstrip(":") for match in DRIVER.finditer(dependencies)]


def blacklists(text: str) -> bool:
    """Return whether a modprobe file keeps nouveau from being loaded."""
    return bool(re.search(r"^[^\S\n]*(?:blacklist|install)[^\S\n]+nouveau(?!\S)", text, re.M))


def blacklists_on_command_line(text: str) -> bool:
    """Return whether the kernel's command line keeps nouveau from being loaded."""
    return any(
        "nouveau" in (parameter.value or "").split(",")
        for parameter in kernel_parameters.parse(text)
        if parameter.name in ("modprobe.blacklist", "module_blacklist")
    )


def keeps_away(text: str) -> str:
    """Return the line of a modprobe file that keeps the driver from being loaded, even by its name."""
    match = re.search(
        r"^[^\S\n]*(install[^\S\n]+nvidia\S*[^\S\n]+(?:/usr)?(?:/bin/)?(?:false|true))\b",
        text,
        re.M,
    )
    return match[1] if match else ""


def keeps_away_on_command_line(text: str) -> str:
    """Return the parameter of the kernel's command line that keeps the driver from being loaded."""
    for written in kernel_parameters.split(text):
        name, value = kernel_parameters.parameter(written)
        modules = (value or "").split(",") if name == "module_blacklist" else []
        if any(module.startswith("nvidia") for module in modules):
            return written
    return ""


def failed_kernel(log: str) -> str:
    """Return the kernel that a log of DKMS is about, empty if it does not say."""
    match = LOG_HEAD.match(log)
    return match[2] if match else ""


def tail(log: str) -> str:
    """Return the end of a log, and before it the first error, which a parallel build buries.

    Long lines, such as the compiler's whole command, are cut.
    """
    lines = [line.rstrip() for line in log.split("\n") if line.strip()]
    end = lines[-TAIL_LINES:]
    first = next((line for line in lines if re.search(r": (?:fatal )?error: ", line)), None)
    if first is not None and first not in end:
        end = [first, "...", *end]
    return "\n".join(f"{line[:TAIL_WIDTH]}..." if len(line) > TAIL_WIDTH else line for line in end)


class Enforcement(t.NamedTuple):
    """Why the kernel rejects modules whose signature it does not know, and what ends that."""

    reason: str
    way_out: str


SECURE_BOOT = Enforcement("Secure Boot is on", "turn Secure Boot off")
SIG_ENFORCE = Enforcement(
    "the kernel takes signed modules alone (module.sig_enforce)", "boot without module.sig_enforce"
)


class SigningKey(t.NamedTuple):
    """The key that DKMS signs with; ``state`` is a key of ``refuse_key``'s problems, or enrolled."""

    path: str
    state: str
    enforcement: Enforcement = SECURE_BOOT


def refuse_key(key: SigningKey, lacking: t.Sequence[str] = ()) -> None:
    """Raise NodeError unless modules that DKMS builds will be accepted.

    ``lacking`` are those of the packages dkms and mokutil that are not there, whose commands the advice has.
    """
    problems = {
        "missing": (
            f"DKMS has no key to sign modules with: {key.path} is not there",
            f"make one with dkms, once that is installed (dkms generate_mok), then mokutil --import {key.path}, reboot "
            "and confirm it on the console",
        ),
        "refused": (
            f"the key that DKMS signs modules with, {key.path}, is not enrolled, so the kernel rejects them",
            f"mokutil --import {key.path}, reboot and confirm it on the console",
        ),
        "pending": (
            f"the key that DKMS signs modules with, {key.path}, waits to be confirmed at the next boot",
            "reboot and confirm it on the console (Enroll MOK)",
        ),
        "blocked": (
            f"the firmware blocks the key that DKMS signs modules with, {key.path}",
            "have DKMS make another key and enrol that",
        ),
        "no_efi": (
            f"the machine has no EFI variables, so {key.path}, which DKMS signs modules with, can't be enrolled",
            "take modules that the distribution has signed, or set secure_boot to ignore if the kernel has the key",
        ),
        "unknown": (
            f"mokutil does not report whether {key.path}, which DKMS signs modules with, is enrolled",
            "install mokutil, or set secure_boot to ignore if you know that it is",
        ),
    }
    if key.state in problems:
        cause, hint = problems[key.state]
        first = [lacked for lacked in lacking if f"{lacked} " in f"{hint} "]
        if first and not hint.startswith("install"):
            hint = f"install {' and '.join(first)}, then: {hint}"
        way_out = key.enforcement.way_out
        raise NodeError(key.enforcement.reason, cause=cause, hint=f"{hint}, or {way_out}")
