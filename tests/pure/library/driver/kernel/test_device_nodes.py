# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A device node whose mode or owner is not what the driver's options say is named, and stays as it is."""

from __future__ import annotations

import stat

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate import driver as checks
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel import device_nodes
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.loading import differing
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Status

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import H100, node
from tests.fakes.packages.driver_runs import planned

PARAMS = "/proc/driver/nvidia/params"
TEXT = (
    "ModifyDeviceFiles: {}\nDeviceFileUID: {}\nDeviceFileGID: {}\nDeviceFileMode: {}\nOther: a b\n"
)


def host(modify: int = 1, uid: int = 0, gid: int = 0, mode: int = 0o666) -> FakeHost:
    """Return a node with a loaded driver that has these options, and device nodes of mode 0666."""
    found = node(H100)
    found.files[PARAMS] = TEXT.format(modify, uid, gid, mode)
    found.files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX Kernel Module  550.1  x"
    found.files["/usr/lib64/libnvidia-ml.so.550.1"] = ""
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"):
        found.files[f"/dev/{name}"] = ""
        give(found, name, 0o666)
    return found


def give(on: FakeHost, name: str, mode: int, uid: int = 0, gid: int = 0) -> None:
    on.statuses[f"/dev/{name}"] = Status(stat.S_IFCHR | mode, uid, gid=gid)


def told(on: FakeHost) -> list[str]:
    return [str(one) for one in differing(on)]  # type: ignore[arg-type]


def test_nodes_are_as_the_drivers_options_say() -> None:
    assert told(host()) == []
    other = host(gid=44, mode=0o660)
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"):
        give(other, name, 0o660, gid=44)
    assert told(other) == []


def test_a_node_that_is_not_is_named() -> None:
    machine = host()
    give(machine, "nvidia0", 0o600)
    give(machine, "nvidia-uvm", 0o666, uid=1000)
    assert told(machine) == [
        "/dev/nvidia-uvm has mode 0666 and owner 1000:0, not 0666 and 0:0",
        "/dev/nvidia0 has mode 0600 and owner 0:0, not 0666 and 0:0",
    ]


def test_what_is_left_to_others_and_what_is_no_device_node_is_not_looked_at() -> None:
    machine = host(modify=0)
    give(machine, "nvidia0", 0o600)
    assert told(machine) == []
    plain = host()
    plain.statuses["/dev/nvidia0"] = Status(stat.S_IFREG | 0o600, 0)
    give(plain, "nvidia-caps-imex", 0o600)
    assert told(plain) == []
    del plain.files[PARAMS]
    give(plain, "nvidia0", 0o600)
    assert told(plain) == []


def test_nodes_of_migs_capabilities_are_as_the_driver_says_of_each() -> None:
    machine = host()
    folder = "/proc/driver/nvidia/capabilities"
    for path, minor, mode, modify in (
        ("mig/config", 1, 0o400, 1),
        ("gpu0/mig/gi1/access", 12, 0o444, 1),
        ("gpu0/mig/gi2/access", 21, 0o444, 0),
    ):
        text = f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: {modify}\n"
        machine.files[f"{folder}/{path}"] = text
        give(machine, f"nvidia-caps/nvidia-cap{minor}", 0o400)
    machine.files[f"{folder}/gpu0/mig/gi3/access"] = "torn"
    give(machine, "nvidiactl", 0o600)
    found = differing(machine)  # type: ignore[arg-type]
    caps = "/dev/nvidia-caps/nvidia-cap12"
    assert [one.path for one in found] == ["/dev/nvidiactl", caps]
    assert device_nodes.way_back(found) == (
        "chown 0:0 /dev/nvidiactl && chmod 0666 /dev/nvidiactl && "
        f"chown 0:0 {caps} && chmod 0444 {caps}, {device_nodes.SAY_SO}"
    )
    assert device_nodes.way_back(found[1:]) == f"chown 0:0 {caps} && chmod 0444 {caps}"


def test_a_run_warns_and_changes_nothing() -> None:
    machine = host()
    give(machine, "nvidia0", 0o600)
    found = planned(machine, source="preinstalled")
    assert "device_nodes" not in [step.action for step in found.steps]
    (warning,) = (one for one in found.warnings if "/dev/nvidia0" in one)
    assert warning.endswith(
        "Next step: chown 0:0 /dev/nvidia0 && chmod 0666 /dev/nvidia0, or, if it is meant, say so by "
        "NVreg_DeviceFileMode, NVreg_DeviceFileUID and NVreg_DeviceFileGID in nvidia_driver_module_options"
    )


@pytest.mark.parametrize(
    ("mode", "uid", "state"),
    [(0o600, 0, "failed"), (0o666, 1000, "failed"), (0o664, 0, "failed"), (0o777, 0, "warning")],
)
def test_a_validation_fails_where_containers_lose_a_gpu_by_it(
    mode: int, uid: int, state: str
) -> None:
    machine = host()
    give(machine, "nvidia0", mode, uid)
    found = checks.DriverFacts(device_nodes=differing(machine))  # type: ignore[arg-type]
    (check,) = (one for one in checks.checks(found, "", "") if one.name == checks.DEVICE_NODES)
    assert check.state == state
    assert check.cause.startswith(f"/dev/nvidia0 has mode {mode:04o}")
    assert "chmod 0666 /dev/nvidia0" in check.next_step
    assert device_nodes.SAY_SO in check.next_step
