# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""No unit may do much more than its work, and the page about security has the figures."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from gpu_plugin._shared._cdi import boot as cdi_boot
from gpu_plugin._shared._cdi.boot import Options

from tests.docs.tables import exposure

DRA, PLUGINS = "gpu-dra.service", "/var/lib/kubelet/plugins"
PLUGIN, LABELS = "gpu-device-plugin.service", "gpu-node-labels.service"


@pytest.mark.attack("unit-privileges")
def test_every_unit_has_bounds_and_no_new_privileges() -> None:
    assert exposure.units()
    for unit in exposure.units():
        for key in ("CapabilityBoundingSet", "SystemCallFilter", "MemoryMax", "TasksMax"):
            assert exposure.setting(unit, key), (unit, key)
        assert exposure.setting(unit, "NoNewPrivileges") == ["yes"], unit
        # The list of devices that these close is filled before the driver has its own.
        for key in ("DevicePolicy", "DeviceAllow", "PrivateDevices", "ProtectClock"):
            assert not exposure.setting(unit, key), (unit, key)


@pytest.mark.attack("unit-privileges")
def test_labels_can_not_become_static_pods() -> None:
    """What may write /etc/kubernetes/manifests has the kubelet run it, as root."""
    assert exposure.setting(LABELS, "ProtectSystem") == ["strict"]
    for word in exposure.setting(LABELS, "ReadWritePaths"):
        path = PurePosixPath(word.lstrip("-+"))
        assert not PurePosixPath("/etc/kubernetes/manifests").is_relative_to(path)
        assert not path.is_relative_to("/etc/kubernetes/manifests")


@pytest.mark.attack("unit-privileges")
def test_the_dra_driver_reaches_no_other_drivers_sockets() -> None:
    """What may write beside them takes their place for the kubelet."""
    assert exposure.setting(DRA, "ProtectSystem") == ["strict"]
    for word in exposure.setting(DRA, "ReadWritePaths"):
        path = PurePosixPath(word.lstrip("-+"))
        assert not PurePosixPath(PLUGINS).joinpath("gpu.nvidia.com").is_relative_to(path)


def test_a_specification_may_be_in_a_folder_of_ones_own() -> None:
    for path, line in {
        "/etc/cdi/nvidia.yaml": "",
        "/var/run/cdi/nvidia.json": "",
        "/srv/cdi/nvidia.yaml": 'ReadWritePaths="-/srv/cdi"\n',
        '/srv/a "%n/nvidia.yaml': 'ReadWritePaths="-/srv/a \\"%%n"\n',
    }.items():
        text = cdi_boot.texts(Options(path))[cdi_boot.UNIT]
        assert text.replace(line, "") == cdi_boot.SERVICE_TEXT
        assert line in text
