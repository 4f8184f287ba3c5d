# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Names that the v1 API fixes."""

from __future__ import annotations

from typing import Final

DRA_PLUGIN: Final = "DRAPlugin"  # the type of a driver of claims

REGISTRATION: Final = "pluginregistration.Registration"
GET_INFO: Final = "/pluginregistration.Registration/GetInfo"
NOTIFY: Final = "/pluginregistration.Registration/NotifyRegistrationStatus"
