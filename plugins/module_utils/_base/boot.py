# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The work of a module at boot: a file with its options, and the units that read it."""

from __future__ import annotations

import typing as t

from .errors import NodeError
from .steps import Step

PROGRAM = "/opt/gpu-node/bin/gpu-plugin"
# The services that run containers and start pods: GPUs and their specification come before them.
BEFORE = (
    "containerd.service docker.service crio.service kubelet.service k3s.service k3s-agent.service "
    "rke2-server.service rke2-agent.service k0sworker.service k0scontroller.service "
    "snap.microk8s.daemon-containerd.service podman-restart.service nomad.service incus.service lxc.service "
    "snap.lxd.daemon.service gpu-device-plugin.service"
)
# The units at boot only talk to the driver. They run as root, and keep of root's capabilities those to change MIG
# layouts, and those that nvidia-modprobe needs, which NVML runs if the module or a device node is missing: to load
# modules and to make nodes. No DevicePolicy, PrivateDevices or ProtectClock: each closes the list of devices, and no
# ProtectProc or ProcSubset, since the driver lists MIG devices in /proc/driver.
SANDBOX = """\
CapabilityBoundingSet=CAP_CHOWN CAP_MKNOD CAP_SYS_ADMIN CAP_SYS_MODULE
IPAddressDeny=any
LockPersonality=yes
MemoryMax=1G
NoNewPrivileges=yes
PrivateTmp=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service @module
TasksMax=512
UMask=0022
"""
# systemd adds up such lines. Units that may take a GPU from a container read the devices that it has.
LOOKS_AT_CONTAINERS = "CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_SYS_PTRACE\n"


def unit_file(unit: str) -> str:
    """Return the path of a unit's file."""
    return f"/etc/systemd/system/{unit}"


class BootState(t.NamedTuple):
    """The files and units on the node: the texts of the files, and systemd's properties of the units."""

    config: t.Optional[str]
    units: t.Mapping[str, t.Optional[str]]
    services: t.Mapping[str, t.Mapping[str, str]]
    program: bool


class Boot(t.NamedTuple):
    """The file and the unit that do a module's work again at boot.

    ``does`` and ``again`` are phrases for what the unit does, and when. ``path_unit`` starts it between boots too;
    ``status`` is the file in which it reports its result.
    """

    config: str
    unit: str
    does: str
    again: str
    path_unit: str = ""
    status: str = ""

    @property
    def units(self) -> t.List[str]:
        """Return the names of all units."""
        return [self.unit, *filter(None, [self.path_unit])]

    def plan(
        self,
        state: BootState,
        desired: t.Optional[str],
        texts: t.Mapping[str, str],
        *,
        check_mode: bool,
    ) -> t.List[Step]:
        """Return the steps that write the file and its units, or remove them if ``desired`` is None."""
        if desired is None:
            return self._removal() if {state.config, *state.units.values()} != {None} else []
        steps = []
        if state.config != desired:
            summary = f"write {self.config}, for the next {self.again}"
            steps.append(Step("boot_config", summary, {"write": {self.config: desired}}))
        for unit, text in texts.items():
            if state.units.get(unit) != text:
                params = {"write": {unit_file(unit): text}, "systemctl": [["daemon-reload"]]}
                steps.append(Step("boot_unit", f"write {unit_file(unit)}", params))
        services = [state.services.get(unit, {}) for unit in self.units]
        enabled = all(service.get("UnitFileState") == "enabled" for service in services)
        if not enabled or (self.path_unit and services[-1].get("ActiveState") != "active"):
            calls, summary = [["enable", unit] for unit in self.units], f"enable {self.unit}"
            if self.path_unit:
                calls.append(["restart", self.path_unit])
                summary += f", enable and start {self.path_unit}"
            steps.append(Step("boot_enable", summary, {"systemctl": calls}))
        elif not steps and any(service.get("NeedDaemonReload") == "yes" for service in services):
            summary = f"have systemd read {', '.join(self.units)} again: their files are others"
            steps.append(Step("boot_unit", summary, {"systemctl": [["daemon-reload"]]}))
        if state.services.get(self.unit, {}).get("ActiveState") == "failed":
            forget = {
                "systemctl": [["reset-failed", self.unit]],
                "remove": [self.status] if self.status else [],
            }
            steps.append(Step("boot_forget", f"clear the failure of {self.unit}", forget))
        if steps and not state.program and not check_mode:
            raise NodeError(
                f"{PROGRAM}, which {self.does}, is not on the node",
                hint="install it first (gpu.node.device_plugin with state installed), or set boot to false",
            )
        return steps

    def _removal(self) -> t.List[Step]:
        summary = f"remove {', '.join(self.units)} and {self.config}"
        params = {
            "disable": [*(["--now"] if self.path_unit else []), *self.units[::-1]],
            "remove": [*map(unit_file, self.units), self.config],
            "systemctl": [["daemon-reload"]],
        }
        return [Step("boot_remove", summary, params)]
