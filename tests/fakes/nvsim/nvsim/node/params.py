# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the loaded driver shows of its options, by nv-reg.h and nv-procfs.c of NVIDIA's open kernel modules 580.142."""

from __future__ import annotations

import re
from collections.abc import Mapping

NUMBERS = """
ResmanDebugLevel=-1 RmLogonRC=1 ModifyDeviceFiles=1 DeviceFileUID=0 DeviceFileGID=0 DeviceFileMode=0666
InitializeSystemMemoryAllocations=1 UsePageAttributeTable=-1 EnableMSI=1 EnablePCIeGen3=0 MemoryPoolSize=0
KMallocHeapMaxSize=0 VMallocHeapMaxSize=0 IgnoreMMIOCheck=0 EnableStreamMemOPs=0 EnableUserNUMAManagement=1
NvLinkDisable=0 RmProfilingAdminOnly=1 PreserveVideoMemoryAllocations=0 EnableS0ixPowerManagement=0
S0ixPowerManagementVideoMemoryThreshold=256 DynamicPowerManagement=3 DynamicPowerManagementVideoMemoryThreshold=200
RegisterPCIDriver=1 EnablePCIERelaxedOrderingMode=0 EnableResizableBar=0 EnableGpuFirmware=18 EnableGpuFirmwareLogs=2
RmNvlinkBandwidthLinkCount=0 EnableDbgBreakpoint=0 OpenRmEnableUnsupportedGpus=1 DmaRemapPeerMmio=1
ImexChannelCount=2048 CreateImexChannel0=0 GrdmaPciTopoCheckOverride=0
"""
TEXTS = (
    "CoherentGPUMemoryMode RegistryDwords RegistryDwordsPerDevice RmMsg GpuBlacklist TemporaryFilePath "
    "ExcludedGpus"
)
# The option by which the driver takes what it shows by another name.
NAMES = {"NVreg_RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}


def number(text: str) -> int:
    """Return a number as the kernel's kstrtoint() reads it. ValueError: it does not, and the module is not loaded."""
    found = int(text, 8 if re.fullmatch(r"-?0\d+", text) else 0)
    if "o" in text.lower() or not -(1 << 31) <= found < 1 << 31:
        raise ValueError(text)
    return found


def shown(options: Mapping[str, str]) -> str:
    """Return /proc/driver/nvidia/params of a driver that was loaded with options. ValueError as above."""
    given = {NAMES.get(name, name.removeprefix("NVreg_")): value for name, value in options.items()}
    lines = []
    for one in NUMBERS.split():
        name, _is, default = one.partition("=")
        lines.append(f"{name}: {number(given.get(name, default)) & 0xFFFFFFFF}\n")
    return "".join([*lines, *(f'{name}: "{given.get(name, "")}"\n' for name in TEXTS.split())])
