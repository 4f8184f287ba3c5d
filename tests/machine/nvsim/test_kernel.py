# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the node shows of the simulated hardware."""

from __future__ import annotations

from pathlib import Path

from nvsim.kernel import NO_UDEV, UVM_LOADED
from nvsim.testing import Sim, client, start


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_hardware_is_there_without_a_driver() -> None:
    with start("h100-80", 2, driver=None) as sim:
        files = tree(sim.root)
        assert "sys/bus/pci/devices/0000:18:00.0/vendor" in files
        assert (sim.root / "sys/bus/pci/devices/0000:29:00.0/device").read_text() == "0x2330\n"
        assert not [name for name in files if name.startswith(("proc/driver", "dev/nvidia"))]


def test_driver_comes_and_goes(a100: Sim) -> None:
    version = a100.root / "proc/driver/nvidia/version"
    assert "Open Kernel Module for x86_64  550.163.01" in version.read_text()
    assert {"dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-uvm"} <= tree(a100.root)
    assert "195 nvidia" in (a100.root / "proc/devices").read_text()
    a100.ctl("unload")
    assert not version.exists()
    assert not [name for name in tree(a100.root) if name.startswith("dev/nvidia")]
    assert "nvidia" not in (a100.root / "proc/devices").read_text()
    a100.ctl("load", version="560.1", flavour="proprietary")
    assert "NVIDIA UNIX x86_64 Kernel Module  560.1" in version.read_text()


def test_capabilities_follow_the_instances(a100: Sim) -> None:
    client(
        a100,
        """
        n.nvmlInit()
        h = n.nvmlDeviceGetHandleByIndex(1)
        n.nvmlDeviceSetMigMode(h, 1)
        n.nvmlGpuInstanceCreateComputeInstance(n.nvmlDeviceCreateGpuInstance(h, 9), 2)
        """,
    )
    device = a100.ctl("status")["gpus"][1]["mig_devices"][0]
    access = (
        a100.root
        / f"proc/driver/nvidia/capabilities/gpu1/mig/gi{device['gi']}/ci{device['ci']}/access"
    )
    assert f"DeviceFileMinor: {device['minors'][1]}\n" in access.read_text()
    minors = (a100.root / "proc/driver/nvidia-caps/mig-minors").read_text()
    assert f"gpu1/gi{device['gi']}/access {device['minors'][0]}\n" in minors
    assert {f"dev/nvidia-caps/nvidia-cap{minor}" for minor in device["minors"]} <= tree(a100.root)
    a100.ctl("reset", gpu="1")
    assert not access.exists()


def test_nobody_makes_nodes_without_udev_and_uvm_is_a_module_of_its_own(a100: Sim) -> None:
    a100.ctl("unload")
    for name in (NO_UDEV, UVM_LOADED):
        (a100.root / name).parent.mkdir(parents=True, exist_ok=True)
    (a100.root / NO_UDEV).touch()
    a100.ctl("load", version="560.1", flavour="proprietary")
    devices = a100.root / "proc/devices"
    assert not list((a100.root / "dev").glob("nvidia[0-9c]*l"))
    assert "nvidia-uvm" not in devices.read_text()
    (a100.root / UVM_LOADED).touch()
    a100.ctl("load", version="560.1", flavour="proprietary")
    assert "nvidia-uvm" in devices.read_text()
    a100.ctl("unload")
    assert not (a100.root / UVM_LOADED).exists()
