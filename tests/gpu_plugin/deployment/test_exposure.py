# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""No unit may do much more than its work, and the page about security has the figures."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import pytest
from gpu_plugin._shared._core.cdi import boot as cdi_boot
from gpu_plugin._shared._core.cdi.boot import Options

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
import exposure

PLUGIN, LABELS = "gpu-device-plugin.service", "gpu-node-labels.service"
MOST = 5.5
measured = pytest.mark.skipif(not exposure.version(), reason="no systemd-analyze that can measure")


@pytest.mark.attack("unit-privileges")
@measured
@pytest.mark.parametrize("unit", exposure.units())
def test_no_unit_may_do_much(unit: str) -> None:
    assert exposure.exposure(unit) <= (3.1 if unit == PLUGIN else MOST)


@pytest.mark.attack("unit-privileges")
@measured
def test_the_measure_sees_what_is_left_out() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exposure, "units", lambda: {"gpu-bare.service": "[Service]\nExecStart=/x\n"})
        assert exposure.exposure("gpu-bare.service") > MOST


@pytest.mark.attack("unit-privileges")
@pytest.mark.skipif(exposure.version() != exposure.SYSTEMD, reason="the page is of another systemd")
def test_the_page_has_the_figures() -> None:
    assert exposure.shown() == exposure.table(), "run make docs-tables"


@pytest.mark.attack("unit-privileges")
@pytest.mark.parametrize("unit", exposure.units())
def test_every_unit_has_bounds_and_no_new_privileges(unit: str) -> None:
    for key in ("CapabilityBoundingSet", "SystemCallFilter", "MemoryMax", "TasksMax"):
        assert exposure.setting(unit, key), key
    assert exposure.setting(unit, "NoNewPrivileges") == ["yes"]
    # The list of devices that these close is filled before the driver has its own.
    for key in ("DevicePolicy", "DeviceAllow", "PrivateDevices", "ProtectClock"):
        assert not exposure.setting(unit, key), key


@pytest.mark.attack("unit-privileges")
def test_labels_can_not_become_static_pods() -> None:
    """What may write /etc/kubernetes/manifests has the kubelet run it, as root."""
    assert exposure.setting(LABELS, "ProtectSystem") == ["strict"]
    for word in exposure.setting(LABELS, "ReadWritePaths"):
        path = PurePosixPath(word.lstrip("-+"))
        assert not PurePosixPath("/etc/kubernetes/manifests").is_relative_to(path)
        assert not path.is_relative_to("/etc/kubernetes/manifests")


@pytest.mark.parametrize(
    ("path", "line"),
    {
        "/etc/cdi/nvidia.yaml": "",
        "/var/run/cdi/nvidia.json": "",
        "/srv/cdi/nvidia.yaml": 'ReadWritePaths="-/srv/cdi"\n',
        '/srv/a "%n/nvidia.yaml': 'ReadWritePaths="-/srv/a \\"%%n"\n',
    }.items(),
)
def test_a_specification_may_be_in_a_folder_of_ones_own(path: str, line: str) -> None:
    text = cdi_boot.texts(Options(path))[cdi_boot.UNIT]
    assert text.replace(line, "") == cdi_boot.SERVICE_TEXT
    assert line in text
