# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The file and the unit by which a MIG layout survives a reboot."""

from __future__ import annotations

from .._base.boot import BEFORE, LOOKS_AT_CONTAINERS, PROGRAM, SANDBOX, Boot
from .._base.services.mig import STATUS, UNIT

CONFIG = "/etc/gpu-node/mig.json"
# Seconds without any progress after which the unit counts as started, so that a broken driver does not keep a node from
# its other work; a program that hangs is ended later.
PATIENCE = 16
# Ordering only: the unit starts nothing and nothing requires it, so that it can deadlock nothing. The program waits for
# NVIDIA's own services itself, since those may take longer than a kubelet is to wait.
UNIT_TEXT = f"""\
# Written by gpu.node.mig.
[Unit]
Description=Partition NVIDIA GPUs (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service
Before={BEFORE}
Before=nvidia-dcgm.service dcgm.service nvidia-dcgm-exporter.service dcgm-exporter.service
Before=nvidia-cdi-refresh.service slurmd.service
ConditionPathExists={CONFIG}

[Service]
Type=notify
RemainAfterExit=yes
ExecStart={PROGRAM} mig --config {CONFIG} --status {STATUS} --patience {PATIENCE}
TimeoutStartSec=180
RuntimeMaxSec=900
RuntimeDirectory=gpu-node
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes

{SANDBOX}{LOOKS_AT_CONTAINERS}
[Install]
WantedBy=multi-user.target
"""
TEXTS = {UNIT: UNIT_TEXT}
BOOT = Boot(CONFIG, UNIT, "partitions the GPUs at boot", "boot", status=STATUS)
