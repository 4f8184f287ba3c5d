# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node in a folder whose apt is genuine, with systemd's services played, and small packages of DCGM.

Names and relations: cmake/packaging.cmake of NVIDIA's DCGM 4.6; what is proprietary, and the exporter's package, by
NVIDIA's installation guide, and that they need the core of their own version is an assumption.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._generated.dcgm import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.capability import (
    DcgmCapability,
)

from tests.fakes.packages.apt_nodes import AptNode, Repository
from tests.fakes.packages.debian import DRIVER, LOADED

DCGM = "datacenter-gpu-manager-4"
CORE = f"{DCGM}-core"
EXPORTER = "datacenter-gpu-manager-exporter"
OLD, NEW = "4.5.2", "4.6.0"
# Units, and the package or the file without which systemd does not know them.
UNITS = {"nvidia-dcgm.service": CORE, "nvidia-dcgm-exporter.service": EXPORTER}


def offer(found: Repository, version: str) -> None:
    """Add DCGM in a version to a repository."""
    full = f"1:{version}-1"
    same = f"Depends: {CORE} (= {full})"
    found.add(CORE, full, "Depends: lshw", "Conflicts: datacenter-gpu-manager")
    found.add(f"{DCGM}-proprietary", full, same)
    for one in ("11", "12", "13"):
        found.add(f"{DCGM}-cuda{one}", full, same, f"Provides: {DCGM} (= {full})")
        found.add(f"{DCGM}-proprietary-cuda{one}", full, f"{same}, {DCGM}-proprietary (= {full})")


class Services:
    """systemd's services; ``units`` has what runs, by name, with the unit's text that it was started with."""

    files: dict[str, str]
    commands: dict[tuple[str, ...], Any]

    def begin(self, driver: str) -> None:
        """Let the machine have a driver, and know its services."""
        self.units: dict[str, str] = {}
        self.boot: set[str] = set()
        self.files[DRIVER] = LOADED.format(driver)
        for verb in ((), ("show",), ("enable",), ("disable",)):
            self.commands["systemctl", *verb] = self._systemctl

    def installed(self) -> dict[str, str]:
        raise NotImplementedError

    def _systemctl(self, words: tuple[str, ...]) -> Completed:
        verb, unit = words[1], words[2 if words[1] == "show" else -1]
        text = self.files.get(f"/etc/systemd/system/{unit}")
        if verb == "daemon-reload":
            return Completed(0, "", "")
        if text is None and UNITS.get(unit) not in self.installed():
            return Completed(0 if verb == "show" else 1, "ActiveState=inactive\n", "no such unit")
        if verb == "show":
            return Completed(0, self._states(unit), "")
        if verb in ("enable", "disable"):
            self.boot = self.boot | {unit} if verb == "enable" else self.boot - {unit}
        if verb in ("start", "restart"):
            self.units[unit] = text or ""
            self._process(unit, text or "")
        if verb == "stop" or (verb == "disable" and "--now" in words):
            self.units.pop(unit, None)
        if verb == "is-active":
            return Completed(0 if unit in self.units else 3, "", "")
        return Completed(0, "", "")

    def _process(self, unit: str, text: str) -> None:
        lines = [
            line.partition("=")[2] for line in text.split("\n") if line.startswith("Environment=")
        ]
        self.files[f"/proc/{self._pid(unit)}/environ"] = "\0".join(lines)

    @staticmethod
    def _pid(unit: str) -> int:
        return 4000 + len(unit)

    def _states(self, unit: str) -> str:
        pid = self._pid(unit) if unit in self.units else 0
        active = "active" if unit in self.units else "inactive"
        enabled = "enabled" if unit in self.boot else "disabled"
        return f"ActiveState={active}\nUnitFileState={enabled}\nMainPID={pid}\n"


class DcgmNode(Services, AptNode):
    """A Debian node with a driver."""

    installed = AptNode.installed

    def __init__(self, root: Path, distribution: Repository, driver: str = "580.95.05") -> None:
        AptNode.__init__(self, root, distribution)
        self.begin(driver)

    def person(self, *words: str) -> None:
        """Run a command as a person would; it must succeed."""
        done = self._genuine(words)
        assert done.rc == 0, done.err


def parameters(**params: Any) -> dict[str, Any]:
    """Return the module's parameters as Ansible fills them in."""
    spec = SPEC["argument_spec"]
    found = {key: one.get("default") for key, one in spec.items()}
    if params.get("exporter") is not None:
        options = spec["exporter"]["options"]
        defaults = {key: one.get("default") for key, one in options.items()}
        params["exporter"] = {**defaults, **params["exporter"]}
    return {**found, **params}


def capability(node: DcgmNode, *, check_mode: bool = False, **params: Any) -> DcgmCapability:
    """Return the capability on a node."""
    return DcgmCapability(node, parameters(**params), check_mode=check_mode)  # type: ignore[arg-type]


def converge(node: DcgmNode, **params: Any) -> Plan:
    """Bring the node to the wanted state and return the plan that is left."""
    one = capability(node, **params)
    for _round in range(5):
        found = one.plan(one.observe())
        for step in found.steps:
            one.apply(step)
        if not found.more:
            return one.plan(one.observe())
    raise AssertionError("there is always more to do")
