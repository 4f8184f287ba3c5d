# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names that the v1beta1 API fixes: its version, its services and their methods."""

from __future__ import annotations

from typing import Final

VERSION: Final = "v1beta1"
KUBELET_SOCKET: Final = "kubelet.sock"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"

REGISTRATION: Final = "v1beta1.Registration"
REGISTER: Final = "/v1beta1.Registration/Register"

DEVICE_PLUGIN: Final = "v1beta1.DevicePlugin"
GET_DEVICE_PLUGIN_OPTIONS: Final = "/v1beta1.DevicePlugin/GetDevicePluginOptions"
LIST_AND_WATCH: Final = "/v1beta1.DevicePlugin/ListAndWatch"
GET_PREFERRED_ALLOCATION: Final = "/v1beta1.DevicePlugin/GetPreferredAllocation"
ALLOCATE: Final = "/v1beta1.DevicePlugin/Allocate"
PRE_START_CONTAINER: Final = "/v1beta1.DevicePlugin/PreStartContainer"
