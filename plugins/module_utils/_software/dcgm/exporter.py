# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The unit of the exporter, and the fields that it asks DCGM for.

Variables and their meaning: pkg/cmd/app.go of NVIDIA's dcgm-exporter 4.8. They are variables rather than arguments, so
that an older exporter ignores what it does not know.
"""

from __future__ import annotations

import hashlib
import typing as t

from ..._base.boot import unit_file
from ..._base.services import dcgm
from .state import Exporter

DCGM_UNIT, UNIT = dcgm.DCGM_UNIT, dcgm.UNIT
VENDOR_UNIT = "nvidia-dcgm-exporter.service"
UNIT_FILE = unit_file(UNIT)
PROGRAM = "/usr/local/libexec/gpu-node/dcgm-exporter"
PACKAGED = "/usr/bin/dcgm-exporter"
COUNTERS = "/etc/gpu-node/dcgm-counters.csv"
SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
ENGINE = "127.0.0.1:5555"  # where nv-hostengine listens by default
SETTINGS = "GPU_NODE_DCGM_SETTINGS"
# etc/default-counters.csv of dcgm-exporter has the names; what is said of them is ours.
FIELDS = """\
# Written by gpu.node.dcgm.
DCGM_FI_DEV_SM_CLOCK, gauge, SM clock in MHz.
DCGM_FI_DEV_MEM_CLOCK, gauge, Memory clock in MHz.
DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature in degrees Celsius.
DCGM_FI_DEV_MEMORY_TEMP, gauge, Memory temperature in degrees Celsius.
DCGM_FI_DEV_POWER_USAGE, gauge, Power draw in W.
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, Energy since the driver was loaded in mJ.
DCGM_FI_DEV_GPU_UTIL, gauge, Share of time with a kernel running in percent.
DCGM_FI_DEV_MEM_COPY_UTIL, gauge, Share of time with memory being accessed in percent.
DCGM_FI_DEV_ENC_UTIL, gauge, Use of the encoders in percent.
DCGM_FI_DEV_DEC_UTIL, gauge, Use of the decoders in percent.
DCGM_FI_DEV_FB_FREE, gauge, Framebuffer memory free in MiB.
DCGM_FI_DEV_FB_USED, gauge, Framebuffer memory used in MiB.
DCGM_FI_DEV_XID_ERRORS, gauge, Number of the last XID.
DCGM_FI_DEV_PCIE_REPLAY_COUNTER, counter, PCIe replays.
DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS, counter, Rows remapped for uncorrectable errors.
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS, counter, Rows remapped for correctable errors.
DCGM_FI_DEV_ROW_REMAP_FAILURE, gauge, 1 where a row could not be remapped.
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, NVLink traffic of all links.
DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Share of time with the graphics engine active.
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Share of cycles with the tensor pipe active.
DCGM_FI_PROF_DRAM_ACTIVE, gauge, Share of cycles with device memory active.
DCGM_FI_PROF_PCIE_TX_BYTES, gauge, PCIe bytes sent each second.
DCGM_FI_PROF_PCIE_RX_BYTES, gauge, PCIe bytes received each second.
"""
# No DevicePolicy and no PrivateDevices: NVML tells it which GPU a MIG device is of.
UNIT_TEXT = """\
# Written by gpu.node.dcgm.
[Unit]
Description=Metrics of NVIDIA DCGM for Prometheus (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
Wants={engine}
After={engine} network.target
StartLimitIntervalSec=0

[Service]
Type=exec
{environment}
{prepare}ExecStart={program}
Restart=always
RestartSec=5

{rights}
CapabilityBoundingSet=
LockPersonality=yes
MemoryMax=1G
NoNewPrivileges=yes
PrivateTmp=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
TasksMax=256
UMask=0077

[Install]
WantedBy=multi-user.target
"""
# The kubelet's socket is root's alone. Root without any capability reads what root owns, and no more of it than this.
AS_ROOT = """\
User=root
InaccessiblePaths=-/etc/kubernetes -/etc/shadow -/etc/gshadow -/etc/ssh -/var/lib/kubelet/pki -/var/lib/kubelet/pods"""
# As the kubelet makes it, and before the sandbox.
PREPARE = "ExecStartPre=+/bin/sh -c 'umask 027 && mkdir -p {}'\n"


def files(exporter: Exporter, program: str) -> t.Dict[str, str]:
    """Return the texts of the exporter's files by their paths; ``program`` says which program it is."""
    texts = {} if exporter.collectors else {COUNTERS: FIELDS}
    body = _unit(exporter, {})
    known = "\n".join([body, program, *texts.values()])
    digest = hashlib.sha256(known.encode()).hexdigest()
    return {**texts, UNIT_FILE: _unit(exporter, {SETTINGS: digest})}


def digest_of(unit: str) -> str:
    """Return the settings that a unit's text names."""
    parts = (line.partition(f"{SETTINGS}=") for line in unit.split("\n"))
    return next((value for _before, is_there, value in parts if is_there), "")


def environment(exporter: Exporter) -> t.Dict[str, str]:
    """Return the variables that tell the exporter what to do."""
    result = {
        "DCGM_EXPORTER_LISTEN": exporter.address,
        "DCGM_EXPORTER_COLLECTORS": exporter.collectors or COUNTERS,
        "DCGM_EXPORTER_INTERVAL": str(exporter.interval * 1000),
        "DCGM_REMOTE_HOSTENGINE_INFO": ENGINE,
    }
    if not exporter.kubernetes:
        # Of an engine that it is told of it takes the address for the host's name.
        return {**result, "DCGM_EXPORTER_NO_HOSTNAME": "true"}
    result["DCGM_EXPORTER_KUBERNETES"] = "true"
    result["DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE"] = exporter.gpu_id_type
    result["DCGM_POD_RESOURCES_KUBELET_SOCKET"] = SOCKET
    result["KUBERNETES_VIRTUAL_GPUS"] = "true" if exporter.shared else "false"
    if exporter.resources:
        result["NVIDIA_RESOURCE_NAMES"] = ",".join(exporter.resources)
    return result


def _unit(exporter: Exporter, more: t.Mapping[str, str]) -> str:
    values, mapped = {**environment(exporter), **more}, exporter.kubernetes
    return UNIT_TEXT.format(
        engine=DCGM_UNIT,
        environment="\n".join(f"Environment={key}={value}" for key, value in values.items()),
        prepare=PREPARE.format(SOCKET.rsplit("/", 1)[0]) if mapped else "",
        program=PROGRAM if exporter.location else PACKAGED,
        rights=AS_ROOT if mapped else "DynamicUser=yes",
    )
