# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU node looks like from outside, whoever made its GPUs."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture(scope="module")
def status(host: Any) -> dict[str, Any]:
    """Return what the device plugin says of itself."""
    answer: dict[str, Any] = json.loads(
        host.check_output("/opt/gpu-node/bin/gpu-plugin status --json")
    )
    return answer


def test_driver_is_loaded_and_matches_its_library(host: Any) -> None:
    loaded = host.file("/proc/driver/nvidia/version").content_string
    version = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0")
    assert version.strip() in loaded


def test_driver_packages_are_held(host: Any) -> None:
    assert "nvidia-smi" in host.check_output("apt-mark showhold").split()


def test_services_run_and_start_at_boot(host: Any) -> None:
    for name in ("gpu-device-plugin", "containerd"):
        service = host.service(name)
        assert service.is_running
        assert service.is_enabled


def test_containerd_hands_out_devices_through_cdi(host: Any) -> None:
    assert "enable_cdi = true" in host.check_output("containerd config dump")


def test_cdi_names_every_device_that_pods_can_get(host: Any, status: dict[str, Any]) -> None:
    devices = json.loads(host.file("/etc/cdi/nvidia.yaml").content_string)["devices"]
    names = {one["name"] for one in devices}
    assert set(status["mig_uuids"]) <= names
    assert names & set(status["gpu_uuids"])
    for device in devices:
        for node in device["containerEdits"]["deviceNodes"]:
            assert host.file(node["path"]).exists


def test_mig_layout_is_made_at_boot(host: Any, status: dict[str, Any]) -> None:
    if not status["mig_uuids"]:
        pytest.skip("no GPU of this machine is partitioned")
    assert host.service("gpu-mig").is_enabled
    assert host.check_output("systemctl is-failed gpu-mig || true") != "failed"


def test_daemon_serves_every_gpu_and_slice(host: Any, status: dict[str, Any]) -> None:
    listed = host.check_output("nvidia-smi -L")
    for uuid in [*status["gpu_uuids"], *status["mig_uuids"]]:
        assert uuid in listed
    assert listed.count("MIG-") == len(status["mig_uuids"])


def test_kubelet_has_accepted_every_resource(host: Any, status: dict[str, Any]) -> None:
    if not host.file("/var/lib/kubelet/device-plugins/kubelet.sock").exists:
        pytest.skip("no kubelet on this machine")
    assert status["state"] == "serving"
    assert status["resources"]
    for resource in status["resources"].values():
        assert resource["registered"]
        assert set(resource["devices"].values()) == {"Healthy"}


def test_files_are_not_open_to_everybody(host: Any) -> None:
    assert host.file("/etc/gpu-node/config.yaml").mode == 0o644
    for path in host.file("/var/lib/kubelet/device-plugins").listdir():
        if path.endswith(".sock"):
            assert host.file(f"/var/lib/kubelet/device-plugins/{path}").mode & 0o022 == 0
