# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Debian with Proxmox VE's kernel: headers and holds are by the packages of that kernel, not of Debian's."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Headers,
    kernel_packages,
)

from tests.fakes.packages.debian import Debian, capability, converge

KERNEL, NEWER = "6.14.8-2-pve", "6.14.11-2-pve"
META = ("proxmox-default-kernel", "proxmox-kernel-6.14")
ASKED = {"version": "550", "source": "distribution"}


@pytest.mark.parametrize(
    ("kernel", "headers"),
    [
        (KERNEL, f"proxmox-headers-{KERNEL}"),
        ("6.5.13-1-pve", "proxmox-headers-6.5.13-1-pve"),
        ("5.15.158-2-pve", "pve-headers-5.15.158-2-pve"),
        ("6.12.48-1-amd64", "linux-headers-6.12.48-1-amd64"),
    ],
)
def test_headers_are_named_by_the_kernels_flavour(kernel: str, headers: str) -> None:
    assert Headers("linux-headers-{}").package_for(kernel) == headers
    assert Headers().package_for(kernel) == ""


def test_what_brings_new_kernels_is_of_the_kernels_project() -> None:
    assert {*META, "proxmox-headers-6.14"} <= set(kernel_packages(KERNEL))
    assert "pve-kernel-5.15" in kernel_packages("5.15.158-2-pve")
    assert kernel_packages("6.12.48-1-amd64") == ()


def node(*kernels: str, headers: bool = True) -> Debian:
    """Return a machine that runs the first of the kernels, without the headers of any."""
    machine = Debian()
    offers = [f"proxmox-headers-{kernel}" for kernel in kernels] if headers else []
    machine.offers |= {name: ["1"] for name in (*offers, *META, "linux-headers-amd64")}
    machine.files["/proc/sys/kernel/osrelease"] = f"{kernels[0]}\n"
    machine.files.pop("/lib/modules/6.12.1/build")
    for kernel in kernels:
        machine.files[f"/boot/vmlinuz-{kernel}"] = ""
        machine.files[f"/lib/modules/{kernel}/modules.dep"] = "kernel/fs/ext4/ext4.ko:\n"
    machine.update()
    return machine


def test_headers_come_with_the_driver_also_for_a_newer_kernel() -> None:
    machine = node(KERNEL, NEWER)
    converge(machine, **ASKED)
    installed = machine.packages
    assert {f"proxmox-headers-{KERNEL}", f"proxmox-headers-{NEWER}"} <= set(installed)
    assert "linux-headers-amd64" not in installed


def test_a_run_without_headers_is_refused_with_their_own_name() -> None:
    machine = node(KERNEL, headers=False)
    with pytest.raises(NodeError, match=f"nor available as proxmox-headers-{KERNEL}"):
        converge(machine, **ASKED)


def test_kernels_of_proxmox_are_held() -> None:
    machine = node(KERNEL)
    converge(machine, **ASKED)
    machine.run(["apt-get", "install", "-y", *META])
    converge(machine, hold_kernel=True, **ASKED)
    held = machine.run(["apt-mark", "showhold"]).out.split()
    assert set(META) <= set(held)
    one = capability(machine, check_mode=True, hold_kernel=True, **ASKED)
    assert not one.plan(one.observe()).steps
