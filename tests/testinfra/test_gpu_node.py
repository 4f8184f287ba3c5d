# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a GPU node looks like from outside, whoever made its GPUs, on each system and with each container runtime.

What a node has is asked of the collection; what comes out of it is looked at with other programs.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

STATUS = "/opt/gpu-node/bin/gpu-plugin status --json"
KUBELET = "/var/lib/kubelet/device-plugins"


def ask(host: Any, module: str, arguments: str = "", *, check: bool = False) -> dict[str, Any]:
    """Return what a module of the collection answers on the node."""
    answer: dict[str, Any] = host.ansible(f"gpu.node.{module}", arguments, check=check)
    return answer


@pytest.fixture(scope="module")
def variables(host: Any) -> dict[str, Any]:
    """Return the node's variables, as the playbook had them."""
    found: dict[str, Any] = host.ansible.get_variables()
    return found


@pytest.fixture(scope="module")
def status(host: Any) -> dict[str, Any]:
    """Return what the device plugin says of itself."""
    answer: dict[str, Any] = json.loads(host.check_output(STATUS))
    return answer


@pytest.fixture(scope="module")
def info(host: Any) -> dict[str, Any]:
    """Return the node's driver and GPUs."""
    found: dict[str, Any] = ask(host, "gpu_info")["gpu_info"]
    return found


@pytest.fixture(scope="module")
def runtimes(host: Any, variables: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the container runtimes that the node has."""
    name = variables.get("container_runtime_name", "auto")
    mode = variables.get("container_runtime_mode", "cdi")
    answer = ask(host, "container_runtime", f"name={name} mode={mode}", check=True)
    found: list[dict[str, Any]] = answer["runtimes"]
    return found


@pytest.fixture(scope="module")
def checks(host: Any) -> dict[str, dict[str, Any]]:
    """Return the checks of the collection's own validation, by their names."""
    return {one["name"]: one for one in ask(host, "validate", "fail=false")["checks"]}


def passed(checks: dict[str, dict[str, Any]], name: str) -> bool:
    """Return whether a check passes; skip the test with its reason where it was not made."""
    check = checks[name]
    if check["state"] == "skipped":
        pytest.skip(f"{name}: {check['cause']}")
    return bool(check["state"] == "passed")


def test_no_check_fails(checks: dict[str, dict[str, Any]]) -> None:
    assert [one for one in checks.values() if one["state"] == "failed"] == []


def test_driver_is_loaded_and_matches_its_library(host: Any, info: dict[str, Any]) -> None:
    version = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0")
    assert version.strip() == info["driver"]["version"]
    assert version.strip() in host.file("/proc/driver/nvidia/version").content_string


def test_every_gpu_of_the_bus_answers(host: Any, info: dict[str, Any]) -> None:
    listed = host.check_output("nvidia-smi -L")
    assert len(info["gpus"]) == len(info["pci_gpus"]) > 0
    assert [one["uuid"] for one in info["gpus"] if one["uuid"] not in listed] == []


def test_driver_packages_are_held(checks: dict[str, dict[str, Any]]) -> None:
    assert passed(checks, "holds")


def test_cuda_adds_two_vectors(checks: dict[str, dict[str, Any]]) -> None:
    assert passed(checks, "CUDA")


def test_services_run_and_start_at_boot(host: Any, runtimes: list[dict[str, Any]]) -> None:
    for name in ("gpu-device-plugin", *(one["unit"] for one in runtimes if one["unit"])):
        service = host.service(name)
        assert service.is_running, name
        assert service.is_enabled, name


def test_each_runtime_hands_out_devices_through_cdi(
    runtimes: list[dict[str, Any]], checks: dict[str, dict[str, Any]]
) -> None:
    assert runtimes
    for one in runtimes:
        assert passed(checks, f"{one['name']}: CDI")


def test_cdi_names_every_device_that_pods_can_get(
    host: Any, status: dict[str, Any], variables: dict[str, Any]
) -> None:
    path = variables.get("cdi_path", "/etc/cdi/nvidia.yaml")
    devices = json.loads(host.file(path).content_string)["devices"]
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
    if not host.file(f"{KUBELET}/kubelet.sock").exists:
        pytest.skip("no kubelet on this machine")
    assert status["state"] == "serving"
    assert status["resources"]
    for resource in status["resources"].values():
        assert resource["registered"]
        assert set(resource["devices"].values()) == {"Healthy"}


def test_files_are_not_open_to_everybody(host: Any) -> None:
    assert host.file("/etc/gpu-node/config.yaml").mode == 0o644
    if host.file(KUBELET).exists:
        for path in host.file(KUBELET).listdir():
            if path.endswith(".sock"):
                assert host.file(f"{KUBELET}/{path}").mode & 0o022 == 0
