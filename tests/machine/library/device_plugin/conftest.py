# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Let the tests import their machine, whose daemon answers at once and has no GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._device_plugin import (
    capability as deployment,
)


@pytest.fixture(autouse=True)
def _no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    capability = deployment.DevicePluginCapability
    monkeypatch.setattr(capability, "_devices", staticmethod(lambda: None))
    monkeypatch.setattr(deployment, "LOOK_AGAIN_SECONDS", 0.0)
