# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The unit of the MPS manager: what its end means for daemons and their clients."""

from __future__ import annotations

import pytest
from gpu_plugin.model.mps.paths import SETTINGS
from gpu_plugin.mps.units import UNIT

from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "files/gpu_plugin/systemd"
GUARANTEED, KUBELET = -997, -999  # the kubelet's adjustments: of such a pod, and of itself


@pytest.fixture(scope="module")
def lines() -> dict[str, str]:
    text = (FOLDER / UNIT).read_text()
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def test_one_unit_for_all_devices(lines: dict[str, str]) -> None:
    assert [path.name for path in FOLDER.glob("*mps*")] == [UNIT]
    assert lines["ExecStart"].endswith(f" mps run --settings {SETTINGS}")
    assert lines["Environment"] == "GPU_NODE_RELEASE=@RELEASE@"
    assert lines["RuntimeDirectoryPreserve"] == "yes"


def test_its_end_ends_no_other_mps_daemon(lines: dict[str, str]) -> None:
    assert lines["KillMode"] == "process"
    assert (
        lines["OOMPolicy"] == "continue"
    )  # where the kernel ends one server systemd would end all
    assert "ExecStop" not in lines


def test_it_ends_by_itself_and_is_started_again_only_after_a_failure(
    lines: dict[str, str],
) -> None:
    assert lines["Restart"] == "on-failure"
    assert lines["Type"] == "notify"
    assert float(lines["WatchdogSec"]) >= 60
    assert "gpu-mig.service" in lines["After"]
    assert lines["Before"] == "gpu-device-plugin.service"


def test_memory_is_taken_from_pods_first_and_from_the_kubelet_last(
    lines: dict[str, str],
) -> None:
    assert KUBELET < int(lines["OOMScoreAdjust"]) < GUARANTEED


def test_it_has_no_mounts_of_its_own(lines: dict[str, str]) -> None:
    """Containers need what it mounts."""
    own = ("Private", "Protect", "ReadOnly", "ReadWrite", "Inaccessible", "Bind", "Temporary")
    assert not [name for name in lines if name.startswith(own)]
