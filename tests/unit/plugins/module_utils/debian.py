# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A small Debian: dpkg's states, and an apt that resolves, simulates, installs and removes."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import (
    SPEC,
    DriverCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._core.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed
from ansible_collections.gpu.node.plugins.module_utils._host.packages.apt import OWN_SOURCES
from fakes import FakeHost

VERSION = "550.163.01-2"
OS_RELEASE = 'ID=debian\nVERSION_CODENAME=trixie\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n'
GPU = "/sys/bus/pci/devices/0000:18:00.0"
LOCKED = Completed(100, "", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by 7")
LOADED = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build"
DRIVER = "/proc/driver/nvidia/version"


class Debian(FakeHost):
    """A trixie node with an H100.

    ``answers`` are given by the next calls of apt-get that are no simulation; None lets one through.
    ``conflicts`` are removed by any installation; ``torn`` names a package at which dpkg is killed.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "/etc/os-release": OS_RELEASE,
                "/etc/apt/sources.list": "deb http://mirror/debian trixie main\n",
                "/proc/sys/kernel/osrelease": "6.12.1\n",
                "/lib/modules/6.12.1/build": "",
                f"{GPU}/vendor": "0x10de\n",
                f"{GPU}/device": "0x2330\n",
                f"{GPU}/class": "0x030200\n",
            }
        )
        names = ("libcuda1", "libnvidia-ml1", "nvidia-cuda-mps", "nvidia-persistenced")
        names += ("nvidia-smi", "libnvidia-cfg1", "firmware-nvidia-gsp")
        names += ("nvidia-open-kernel-dkms", "nvidia-kernel-dkms")
        self.offers = {name: [VERSION, "535.261.03-1"] for name in names}
        self.depends = {"nvidia-open-kernel-dkms": ["dkms"], "nvidia-kernel-dkms": ["dkms"]}
        self.offers["dkms"] = ["3.2-1"]
        self.packages = {"dpkg": ("1.22", "ii ")}
        self.lists = False
        self.enabled = False
        self.complaint = ""
        self.answers: list[Completed | None] = []
        self.conflicts: list[str] = []
        self.torn = ""
        self.rmmod_error = ""
        self.commands = {
            ("dpkg-query",): self._query,
            ("apt-cache", "policy"): self._policy,
            ("apt-cache", "depends"): self._depends,
            ("apt-cache", "pkgnames"): self._pkgnames,
            ("apt-get",): self._apt_get,
            ("apt-mark",): self._mark,
            ("dpkg",): self._configure,
            ("modprobe",): self._modprobe,
            ("rmmod",): self._rmmod,
            ("systemctl", "is-active"): "active\n",
            ("systemctl", "stop"): "",
            ("systemctl", "start"): "",
            ("systemctl", "show"): self._show,
            ("systemctl", "enable"): self._enable,
            ("systemctl", "disable"): self._enable,
        }

    def changes(self) -> list[str]:
        """Return the last words of the commands that change packages."""
        return [
            words[-1]
            for words in self.ran
            if words[0] in ("apt-get", "dpkg", "apt-mark") and "--simulate" not in words
        ]

    def _query(self, _words: tuple[str, ...]) -> Completed:
        rows = [f"{n}\tamd64\t{n}\t{v}\t{state}" for n, (v, state) in self.packages.items()]
        return Completed(0, "\n".join(rows) + "\n", "")

    def _policy(self, words: tuple[str, ...]) -> Completed:
        text = ""
        for name in words[2:]:
            versions = self.offers.get(name, []) if self.lists and OWN_SOURCES in self.files else []
            if versions:
                text += f"{name}:\n  Candidate: {versions[0]}\n  Version table:\n"
                text += "".join(f"     {version} 500\n" for version in versions)
        return Completed(0, text, "")

    def _pkgnames(self, words: tuple[str, ...]) -> Completed:
        names = [name for name in self.offers if self.lists and name.startswith(words[2])]
        return Completed(0, "\n".join(names) + "\n", "")

    def _depends(self, words: tuple[str, ...]) -> Completed:
        text = ""
        for name in words[5:]:
            text += f"{name}\n" + "".join(
                f"  Depends: {one}\n" for one in self.depends.get(name, [])
            )
        return Completed(0, text, "")

    def _apt_get(self, words: tuple[str, ...]) -> Completed:
        simulate = "--simulate" in words
        answer = self.answers.pop(0) if self.answers and not simulate else None
        if answer is not None:
            return answer
        if words[-1] == "update":
            self.lists = True
            return Completed(0, "", self.complaint)
        verb = "purge" if "purge" in words else "install"
        names = words[words.index(verb) + 1 :]
        return self._purge(names, simulate) if verb == "purge" else self._install(names, simulate)

    def _purge(self, names: tuple[str, ...], simulate: bool) -> Completed:
        gone = set(names) & set(self.packages)
        gone |= {one for one in self.packages if set(self.depends.get(one, [])) & gone}
        if not simulate:
            self.packages = {k: v for k, v in self.packages.items() if k not in gone}
            if "firmware-nvidia-gsp" in gone:
                self.remove("/lib/firmware/nvidia")
        return Completed(0, "".join(f"Purg {name} [1]\n" for name in sorted(gone)), "")

    def _install(self, names: tuple[str, ...], simulate: bool) -> Completed:
        wanted = {}
        for name, _equals, version in (one.partition("=") for one in names if one[-1:] != "-"):
            wanted.update({one: self.offers[one][0] for one in self.depends.get(name, [])})
            wanted[name] = version or self.offers.get(name, self.packages.get(name))[0]
        there = {
            name: version for name, (version, state) in self.packages.items() if state[1:] == "i "
        }
        wanted = {name: version for name, version in wanted.items() if there.get(name) != version}
        gone = [one[:-1] for one in names if one[-1:] == "-"]
        gone += [name for name in self.conflicts if name in self.packages]
        text = "".join(f"Remv {name} [1]\n" for name in gone)
        for name, version in wanted.items():
            old = f" [{self.packages[name][0]}]" if name in self.packages else ""
            text += f"Inst {name}{old} ({version} Debian:13/stable [amd64])\n"
        if simulate:
            return Completed(0, text, "")
        for name in gone:
            self.packages.pop(name, None)
        for name, version in wanted.items():
            if name == self.torn:
                self.torn = ""
                self.packages[name] = (version, "iHR")
                return Completed(-9, text, "")
            self.packages[name] = (version, "ii ")
        return Completed(0, text, "")

    def _mark(self, words: tuple[str, ...]) -> Completed:
        letter = "h" if words[1] == "hold" else "i"
        for name in words[2:]:
            version, state = self.packages[name]
            self.packages[name] = (version, letter + state[1:])
        return Completed(0, "", "")

    def _configure(self, _words: tuple[str, ...]) -> Completed:
        for name, (version, state) in self.packages.items():
            if state[1] in "UF":
                self.packages[name] = (version, f"{state[0]}i ")
        return Completed(0, "", "")

    def _modprobe(self, words: tuple[str, ...]) -> Completed:
        self.files[f"/sys/module/{words[1]}/version"] = ""
        if words[1] == "nvidia" and DRIVER not in self.files:
            version = self.packages["nvidia-open-kernel-dkms"][0].split("-")[0]
            self.files[DRIVER] = LOADED.format(version)
            self.files[f"/lib/firmware/nvidia/{version}/gsp_ga10x.bin"] = ""
        return Completed(0, "", "")

    def _rmmod(self, words: tuple[str, ...]) -> Completed:
        if self.rmmod_error:
            return Completed(1, "", self.rmmod_error)
        for name in words[1:]:
            self.remove(f"/sys/module/{name}")
        self.remove(DRIVER)
        return Completed(0, "", "")

    def _show(self, _words: tuple[str, ...]) -> Completed:
        on = self.enabled and "nvidia-persistenced" in self.packages
        states = "ActiveState=active\nUnitFileState=enabled\n"
        return Completed(0, states if on else "ActiveState=inactive\nUnitFileState=\n", "")

    def _enable(self, words: tuple[str, ...]) -> Completed:
        self.enabled = words[1] == "enable"
        return Completed(0, "", "")


def capability(host: Debian, *, check_mode: bool = False, **params: Any) -> DriverCapability:
    defaults = {name: spec.get("default") for name, spec in SPEC["argument_spec"].items()}
    return DriverCapability(host, {**defaults, **params}, check_mode=check_mode)


def converge(host: Debian, **params: Any) -> Plan:
    """Bring the node to the wanted state and return the plan that is left."""
    one = capability(host, **params)
    for _round in range(5):
        found = one.plan(one.observe())
        for step in found.steps:
            one.apply(step)
        if not found.more:
            return one.plan(one.observe())
    raise AssertionError("there is always more to do")
