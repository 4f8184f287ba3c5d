# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which branch of the driver had a function first: older ones have no such symbol.

Those of 550 are what Debian's library 550.163.01 exports and 535.261.03 does not.
"""

from __future__ import annotations

BRANCHES = {
    550: (
        "nvmlDeviceGetC2cModeInfoV nvmlDeviceGetGpuFabricInfoV nvmlDeviceGetNumaNodeId "
        "nvmlDeviceGetPciInfoExt nvmlDeviceGetProcessesUtilizationInfo "
        "nvmlDeviceGetVgpuHeterogeneousMode nvmlDeviceGetVgpuInstancesUtilizationInfo "
        "nvmlDeviceGetVgpuProcessesUtilizationInfo nvmlDeviceGetVgpuTypeCreatablePlacements "
        "nvmlDeviceGetVgpuTypeSupportedPlacements nvmlDeviceSetVgpuCapabilities "
        "nvmlDeviceSetVgpuHeterogeneousMode nvmlSystemGetConfComputeKeyRotationThresholdInfo "
        "nvmlSystemGetConfComputeSettings nvmlSystemSetConfComputeKeyRotationThresholdInfo "
        "nvmlVgpuInstanceGetPlacementId nvmlVgpuTypeGetFbReservation nvmlVgpuTypeGetGspHeapSize"
    ),
    570: (
        "nvmlDeviceGetHandleByUUIDV nvmlDeviceGetTemperatureV "
        "nvmlDeviceWorkloadPowerProfileClearRequestedProfiles "
        "nvmlDeviceWorkloadPowerProfileGetCurrentProfiles "
        "nvmlDeviceWorkloadPowerProfileGetProfilesInfo "
        "nvmlDeviceWorkloadPowerProfileSetRequestedProfiles"
    ),
    580: "nvmlDeviceGetRemappedRows_v2 nvmlDeviceGetRepairStatus",
    590: ("nvmlDeviceGetUnrepairableMemoryFlag_v1 nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1"),
    615: "nvmlDeviceGetMemoryLimits_v1 nvmlDeviceSetMemoryLimits_v1",
}
SINCE = {name: branch for branch, names in BRANCHES.items() for name in names.split()}


def there(function: str, version: str) -> bool:
    """Return whether a version of the driver has a function."""
    return int(version.split(".")[0]) >= SINCE.get(function, 0)
