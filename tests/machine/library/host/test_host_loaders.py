# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernel command line as the genuine update-grub and kernel-install write it from what the module gives them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._host.machine.loaders import DROP_IN
from ansible_collections.gpu.node.plugins.module_utils._host.machine.loaders import (
    KERNEL_COMMAND_LINE as CMDLINE,
)

from tests.fakes.host.booted_root import BootedRoot
from tests.fakes.host.host_nodes import run
from tests.support.paths import REPOSITORY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(params=[False, True], ids=["grub", "systemd-boot"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> BootedRoot:
    return BootedRoot(tmp_path, systemd_boot=request.param)


def test_the_entries_have_it_until_it_is_given_back(machine: BootedRoot) -> None:
    machine.boot()
    first = machine.next()
    assert first[0][:3] == ["root=/dev/sda1", "ro", "quiet"]
    assert "iommu" not in str(first)
    done = run(machine, iommu="pt")
    assert done["reboot_required"]
    assert sorted(machine.next()[0]) == sorted([*first[0], "intel_iommu=on", "iommu=pt"])
    assert all(one[0] == "root=/dev/sda1" and "iommu=pt" in one for one in machine.next())
    again = run(machine, iommu="pt")
    assert (again["changed"], again["reboot_required"]) == (False, True)
    assert "machine_id" not in (
        machine.read("/etc/kernel/cmdline") or ""
    )  # an image is many machines
    machine.boot()
    booted = run(machine, iommu="pt")
    assert (booted["changed"], booted["reboot_required"]) == (False, False)
    run(machine, iommu="off")
    assert sorted(machine.next()[0]) == sorted([*first[0], "intel_iommu=off"])
    run(machine, state="absent")
    assert machine.next() == first
    assert not run(machine, state="absent")["changed"]


def test_what_the_next_kernel_would_boot_without_is_written_again(machine: BootedRoot) -> None:
    """The entries that there are have it still."""
    run(machine, iommu="pt")
    machine.boot()
    source = CMDLINE if "kernel-install" in machine.genuine else DROP_IN
    for text in ("", None):
        if text is None:
            machine.remove(source)
        else:
            machine.put(source.lstrip("/"), text)
        looked = run(machine, check=True, iommu="pt")
        if (source, text) == (CMDLINE, None):  # kernel-install takes what is booted
            assert looked["steps"] == []
            continue
        assert looked["steps"][0]["summary"].startswith("add intel_iommu=on iommu=pt")
        assert not looked["reboot_required"]
        run(machine, iommu="pt")
        assert "iommu=pt" in (machine.read(source) or "")
        assert not run(machine, iommu="pt")["changed"]


def test_what_somebody_has_written_for_grub_stays(tmp_path: Path) -> None:
    machine = BootedRoot(tmp_path)
    machine.put("etc/default/grub.d/50-cloud.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="console=ttyS0"\n')
    run(machine, iommu="pt")
    assert machine.next()[0][-3:] == ["console=ttyS0", "intel_iommu=on", "iommu=pt"]


def test_the_playbook_reboots_a_node_that_waits_and_no_other(tmp_path: Path) -> None:
    machine = BootedRoot(tmp_path)
    tasks = yaml.safe_load((REPOSITORY / "playbooks/tasks/reboot/plan.yml").read_text())
    question = tasks[0]["vars"]["__reboot_question"]

    def reasons() -> list[str]:
        lines = machine.inside("/bin/sh", "-c", question).out.splitlines()
        return [one for one in lines if one.startswith("iommu")]

    assert reasons() == []
    run(machine, iommu="pt")
    assert reasons() == ["iommu: the kernel was booted without intel_iommu=on iommu=pt"]
    machine.boot()
    assert reasons() == []
    run(machine, state="absent")
    assert reasons() == ["iommu: the kernel was booted with intel_iommu=on iommu=pt"]
