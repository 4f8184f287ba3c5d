# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A small Debian, whose apt and dpkg are genuine, and what every test of the driver does."""

from __future__ import annotations

import functools
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import (
    SPEC,
    DriverCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._core.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed

from tests.fakes.library.fakes import DRIVER, GPU, LOADED, OS_RELEASE
from tests.fakes.played.small_apt import SmallApt

VERSION = "550.163.01-2"
LOCKED = Completed(100, "", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by 7")


class Debian(SmallApt):
    """A trixie node with an H100."""

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
        self.sources = dict.fromkeys(names, "nvidia-graphics-drivers")
        self.depends = {"nvidia-open-kernel-dkms": ["dkms"], "nvidia-kernel-dkms": ["dkms"]}
        self.offers["dkms"] = ["3.2-1"]
        self.enabled = False
        self.rmmod_error = ""
        self.commands |= {
            ("modprobe",): self._modprobe,
            ("rmmod",): self._rmmod,
            ("systemctl", "is-active"): "active\n",
            ("systemctl", "stop"): "",
            ("systemctl", "start"): "",
            ("systemctl", "show"): self._show,
            ("systemctl", "enable"): self._enable,
            ("systemctl", "disable"): self._enable,
        }

    def _apt_get(self, words: tuple[str, ...]) -> Completed:
        done = super()._apt_get(words)
        if "purge" in words and "firmware-nvidia-gsp" not in self.packages:
            self.remove("/lib/firmware/nvidia")
        return done

    def _modprobe(self, words: tuple[str, ...]) -> Completed:
        self.files[f"/sys/module/{words[1]}/version"] = ""
        if words[1] == "nvidia" and DRIVER not in self.files:
            kinds = ("nvidia-open-kernel-dkms", "nvidia-kernel-dkms")
            package = next(one for one in kinds if one in self.packages)
            version = self.packages[package][0].split("-")[0]
            text = LOADED if package == kinds[0] else LOADED.replace("Open ", "")
            self.files[DRIVER] = text.format(version)
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


@functools.lru_cache
def _template(kind: type[Debian]) -> Debian:
    node = kind()
    assert converge(node).steps == ()
    return node


def converged(kind: type[Debian] = Debian) -> Any:
    """Return a node with the driver, which was installed once for all tests."""
    node = kind()
    node.copy_of(_template(kind))
    node.enabled = True
    return node


def capability(host: Any, *, check_mode: bool = False, **params: Any) -> DriverCapability:
    defaults = {name: spec.get("default") for name, spec in SPEC["argument_spec"].items()}
    values = {**defaults, "releases": False, **params}
    return DriverCapability(host, values, check_mode=check_mode)


def converge(host: Any, **params: Any) -> Plan:
    """Bring the node to the wanted state and return the plan that is left."""
    one = capability(host, **params)
    for _round in range(5):
        found = one.plan(one.observe())
        for step in found.steps:
            one.apply(step)
        if not found.more:
            return one.plan(one.observe())
    raise AssertionError("there is always more to do")


def reported(host: Any, **params: Any) -> dict[str, Any]:
    """Return what a run in check mode reports."""
    one = capability(host, check_mode=True, **params)
    state = one.observe()
    return one.result(state, one.plan(state))
