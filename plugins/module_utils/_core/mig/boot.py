# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What makes a MIG layout survive a reboot: a file with the layout, and a unit that applies it."""

from __future__ import annotations

import json
import typing as t

from ..errors import InputError, NodeError, damaged
from ..steps import Step
from ..text import json_data

CONFIG = "/etc/gpu-node/mig.json"
UNIT = "gpu-mig.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
STATUS = "/run/gpu-node/mig.json"
LOCK = "/run/gpu-node/mig.lock"
PROGRAM = "/opt/gpu-node/bin/gpu-plugin"
# What runs at boot speaks with the driver and with nobody else. It is root, and keeps of root's rights those to change
# MIG layouts, and those that nvidia-modprobe needs, which NVML runs where the module or a device node is missing: to
# load modules and to make nodes. No DevicePolicy, PrivateDevices or ProtectClock: each closes the list of devices, and
# no ProtectProc or ProcSubset, since the driver tells of MIG devices in /proc/driver.
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
# Ordering only: the unit starts nothing and nothing requires it, so that it can deadlock nothing.
UNIT_TEXT = f"""\
# Written by gpu.node.mig.
[Unit]
Description=Partition NVIDIA GPUs (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service nvidia-persistenced.service nvidia-fabricmanager.service
Before=kubelet.service containerd.service docker.service crio.service slurmd.service
Before=nvidia-dcgm.service dcgm.service nvidia-dcgm-exporter.service dcgm-exporter.service
Before=nvidia-cdi-refresh.service gpu-device-plugin.service
ConditionPathExists={CONFIG}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={PROGRAM} mig --config {CONFIG} --status {STATUS}
TimeoutStartSec=180
RuntimeDirectory=gpu-node
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes

{SANDBOX}
[Install]
WantedBy=multi-user.target
"""


class Boot(t.NamedTuple):
    """What the node has of it; ``service`` is systemd's view of the unit."""

    config: t.Optional[str]
    unit: t.Optional[str]
    service: t.Mapping[str, str]
    program: bool


def dump(config: t.Any, selected: str) -> str:
    """Return the file's text. InputError: nobody could read it again."""
    text = json.dumps({"config": config, "selected": selected}, indent=1, sort_keys=True) + "\n"
    if len(text) > json_data.LONGEST:
        raise InputError.of("config", config, f"at most {json_data.LONGEST >> 10} KiB of JSON")
    return text


def load(text: str, path: str) -> t.Tuple[t.Any, str]:
    """Return configuration and selection from the file's text."""
    try:
        data = json_data.loads(text)
        return data["config"], str(data["selected"])
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, error, "run gpu.node.mig again, which writes it") from error


def plan(boot: Boot, wanted: t.Optional[str], *, check_mode: bool) -> t.List[Step]:
    """Return the steps to the wanted file, or with None to none of it."""
    if wanted is None:
        there = boot.config is not None or boot.unit is not None
        return [Step("boot_remove", f"remove {UNIT} and {CONFIG}")] if there else []
    steps = []
    if boot.config != wanted:
        steps.append(Step("boot_config", f"write {CONFIG}, for the next boot", {"text": wanted}))
    if boot.unit != UNIT_TEXT:
        steps.append(Step("boot_unit", f"write {UNIT_FILE}"))
    if boot.service.get("UnitFileState") != "enabled":
        steps.append(Step("boot_enable", f"enable {UNIT}"))
    if boot.service.get("ActiveState") == "failed":
        steps.append(Step("boot_forget", f"clear the failure of {UNIT}"))
    if steps and not boot.program and not check_mode:
        raise NodeError(
            f"{PROGRAM}, which partitions the GPUs at boot, is not on the node",
            hint="install it first (gpu.node.device_plugin with state installed), or set boot to false",
        )
    return steps
