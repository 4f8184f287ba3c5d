# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The IOMMU by the kernel command line: with each boot loader, over reboots and kills, and back."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._host import command_line
from ansible_collections.gpu.node.plugins.module_utils._host.state import (
    PATH,
    CommandLine,
    HostRecord,
    dump,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.host.host_nodes import (
    LOADERS,
    GrubbyHost,
    GrubHost,
    LoaderHost,
    SystemdBootHost,
    finished,
    refused,
    run,
)

LOADER = pytest.mark.parametrize("make", LOADERS)
VFIO = "/sys/bus/pci/drivers/vfio-pci/0000:18:00.0"


@LOADER
def test_pt_is_added_told_booted_and_given_back(make: type[LoaderHost]) -> None:
    host = make()
    first = host.next()
    planned = run(host, check=True, iommu="pt")
    assert host.next() == first
    done = run(host, iommu="pt")
    assert done["steps"] == planned["steps"]
    assert done["reboot_reasons"] == [
        "iommu: the kernel was booted without intel_iommu=on iommu=pt"
    ]
    assert host.next().split()[-1] == "iommu=pt"
    assert "root=UUID=1 ro quiet" in host.next()
    assert "intel_iommu=on" in host.next().split()
    again = run(host, iommu="pt")
    assert (again["changed"], again["reboot_required"]) == (False, True)
    host.boot()
    settled = run(host, iommu="pt")
    assert (settled["changed"], settled["reboot_required"]) == (False, False)
    assert settled["iommu"]["in_force"] == "pt"
    back = run(host, state="absent")
    assert sorted(host.next().split()) == sorted(first.split())
    assert back["reboot_reasons"] == ["iommu: the kernel was booted with intel_iommu=on iommu=pt"]
    again = run(host, state="absent")
    assert (again["changed"], again["reboot_required"]) == (False, True)
    host.boot()
    again = run(host, state="absent")
    assert (again["changed"], again["reboot_required"]) == (False, False)
    assert PATH not in host.files


@LOADER
@pytest.mark.parametrize("params", [{"iommu": "pt"}, {"state": "absent"}, {"iommu": "off"}])
def test_what_a_killed_run_has_left_is_finished_by_the_next(
    make: type[LoaderHost], params: dict[str, Any]
) -> None:
    def begun() -> LoaderHost:
        host = make()
        if params != {"iommu": "pt"}:
            run(host, iommu="pt")
            host.boot()
        return host

    whole = begun()
    run(whole, **params)
    for at in range(20):
        host = begun()
        done = finished(host, at, **params)
        run(host, **params)
        assert sorted(host.next().split()) == sorted(whole.next().split())
        assert host.files.get(PATH) == whole.files.get(PATH)
        assert not run(host, **params)["changed"]
        run(host, state="absent")
        assert sorted(host.next().split()) == sorted(make().next().split())
        if done:
            return
    raise AssertionError("it never ended")


@given(st.sampled_from(LOADERS), st.lists(st.sampled_from(["pt", "off", "unmanaged", "boot"])))
def test_whatever_was_asked_for_before_what_is_given_back_is_what_there_was(
    make: type[LoaderHost], modes: list[str]
) -> None:
    host = make()
    first = sorted(host.next().split())
    for mode in modes:
        if mode == "boot":
            host.boot()
        else:
            run(host, iommu=mode)
            assert not run(host, iommu=mode)["changed"]
    run(host, state="absent")
    assert sorted(host.next().split()) == first
    assert PATH not in host.files


@pytest.mark.parametrize(
    ("vendor", "mode", "words"),
    [
        ("GenuineIntel", "pt", ["intel_iommu=on", "iommu=pt"]),
        ("GenuineIntel", "off", ["intel_iommu=off"]),
        ("AuthenticAMD", "pt", ["iommu=pt"]),
        ("AuthenticAMD", "off", ["amd_iommu=off"]),
    ],
)
def test_the_options_are_those_of_the_processor(vendor: str, mode: str, words: list[str]) -> None:
    host = GrubHost(vendor)
    run(host, iommu=mode)
    assert host.next().split()[3:] == words


def test_an_arm_processor_has_its_own_option_and_none_for_off() -> None:
    host = GrubHost()
    host.files["/proc/cpuinfo"] = "processor\t: 0\nCPU implementer\t: 0x41\n"
    run(host, iommu="pt")
    assert host.next().split()[3:] == ["iommu.passthrough=1"]
    error = refused(host, iommu="off")
    assert error.hint == "set host_iommu to unmanaged or pt"
    host.files["/proc/cpuinfo"] = "vendor_id\t: CentaurHauls\n"
    assert "this processor" in refused(host, iommu="pt").cause


def test_what_somebody_else_has_written_is_left_and_not_given_back() -> None:
    host = GrubHost()
    host.words += " intel_iommu=on,sm_on iommu=pt"
    host.run(["update-grub"])
    assert run(host, iommu="pt")["reboot_required"]
    assert PATH not in host.files
    host.boot()
    assert not run(host, iommu="pt")["reboot_required"]
    assert not run(host, state="absent")["changed"]


def test_what_was_booted_and_is_not_written_any_more_is_written_again_without_a_reboot() -> None:
    host = GrubHost()
    run(host, iommu="pt")
    host.boot()
    host.files.pop("/etc/default/grub.d/zz-gpu-node.cfg")
    host.run(["update-grub"])
    found = run(host, check=True, iommu="pt")
    assert (len(found["steps"]), found["reboot_required"]) == (1, False)
    run(host, iommu="pt")
    assert host.next().endswith("intel_iommu=on iommu=pt")


def test_what_another_loader_boots_without_it_is_told_and_asks_for_no_reboot_again() -> None:
    host = GrubHost()
    run(host, iommu="pt")
    host.words, kept = "root=UUID=1", host.words
    host.boot()
    host.files["/proc/cmdline"] = "root=UUID=1 ro\n"
    host.words = kept
    found = run(host, iommu="pt")
    assert not found["reboot_required"]
    (warning,) = found["warnings"]
    assert "since an earlier boot, and the kernel was booted without it" in warning


@pytest.mark.parametrize(
    ("path", "link", "said"),
    [
        (VFIO, "", "0000:18:00.0 has the driver vfio-pci"),
        ("/etc/libvirt/qemu/vm1.xml", "", "libvirt's guest vm1 has a device"),
        ("/proc/77/fd/9", "anon_inode:kvm-vm", "process 77 (qemu-system-x86) runs a guest"),
    ],
)
def test_off_is_refused_on_a_host_that_hands_devices_to_guests(
    path: str, link: str, said: str
) -> None:
    host = GrubHost()
    if link:
        host.files["/sys/module/kvm_intel/refcnt"] = "3\n"
        host.links[path] = link
        host.files["/proc/77/comm"] = "qemu-system-x86\n"
    else:
        host.files[path] = "<domain><devices><hostdev mode='subsystem'/></devices></domain>"
    error = refused(host, iommu="off")
    assert said in error.cause
    assert error.hint == "set host_iommu to pt or unmanaged"
    assert run(host, iommu="pt")["changed"]


@pytest.mark.parametrize(
    ("there", "walks"),
    [
        ({}, False),
        ({"/dev/kvm": "", "/sys/module/kvm_amd/refcnt": "0\n"}, False),
        ({"/dev/kvm": "", "/sys/module/kvm_amd/refcnt": "2\n"}, True),
        ({"/dev/kvm": ""}, True),  # KVM is no module of its own, as on Arm
    ],
)
def test_open_files_of_all_processes_are_read_only_where_a_guest_may_run(
    there: dict[str, str], walks: bool
) -> None:
    host = GrubHost()
    host.files.update({"/proc/77/fd/9": "", **there})
    listed: list[str] = []
    first = host.listdir
    host.listdir = lambda path: listed.append(path) or first(path)  # type: ignore[method-assign,func-returns-value]
    assert run(host, iommu="off")["changed"]
    assert ("/proc/77/fd" in listed) == walks


def test_guests_without_devices_and_other_names_in_the_folder_are_no_reason() -> None:
    host = GrubHost()
    host.files["/etc/libvirt/qemu/vm1.xml"] = "<domain/>"
    host.files["/sys/bus/pci/drivers/vfio-pci/bind"] = ""
    assert run(host, iommu="off")["changed"]


def test_what_no_option_takes_back_is_refused_by_its_name() -> None:
    host = GrubHost("AuthenticAMD")
    host.words += " amd_iommu=off"
    host.run(["update-grub"])
    error = refused(host, iommu="pt")
    assert "amd_iommu=off" in error.cause
    assert "GRUB (/etc/default/grub)" in error.hint


def test_a_node_that_boots_some_other_way_is_refused_until_it_was_booted_with_it() -> None:
    host = GrubHost()
    del host.commands[("update-grub",)]
    error = refused(host, iommu="pt")
    assert "none of update-grub, grubby, pbl and systemd-boot" in error.cause
    assert "add intel_iommu=on iommu=pt, reboot, and run again" in error.hint
    host.files["/proc/cmdline"] += " intel_iommu=on iommu=pt"
    done = run(host, iommu="pt")
    assert (done["changed"], done["reboot_required"]) == (False, False)


def test_a_loader_without_an_entry_is_refused() -> None:
    host = GrubHost()
    host.files["/boot/grub/grub.cfg"] = "# nothing\n"
    assert "no entry of it that boots Linux was found" in refused(host, iommu="pt").cause


def test_an_iommu_that_the_firmware_has_switched_off_is_told() -> None:
    host = GrubHost()
    run(host, iommu="pt")
    host.boot()
    host.remove("/sys/kernel/iommu_groups")
    done = run(host, iommu="pt")
    assert not done["reboot_required"]
    assert "the firmware has it off" in done["warnings"][0]


@pytest.mark.parametrize("mode", ["pt", "off"])
def test_a_machine_whose_firmware_tells_of_none_is_not_rebooted_for_it(mode: str) -> None:
    host = GrubHost()
    host.files["/sys/firmware/acpi/tables/FACP"] = ""
    done = run(host, iommu=mode)
    assert (done["changed"], done["reboot_required"]) == (False, False)
    assert "there is no IOMMU" in done["warnings"][0]
    host.files["/sys/firmware/acpi/tables/DMAR"] = ""
    assert run(host, iommu=mode)["reboot_required"]
    del host.files["/sys/firmware/acpi/tables/DMAR"]
    assert run(host, state="absent")["changed"]


def test_a_group_that_translates_all_the_same_is_told() -> None:
    host = GrubHost()
    run(host, iommu="pt")
    host.boot()
    host.files["/sys/bus/pci/devices/0000:18:00.0/iommu_group/type"] = "DMA\n"
    done = run(host, iommu="pt")
    assert done["iommu"]["in_force"] == "on"
    assert "the IOMMU of the GPUs is on" in done["warnings"][0]


def test_a_kernel_without_the_word_has_its_entry_written_again() -> None:
    host = SystemdBootHost()
    run(host, iommu="pt")
    old = host.files[host.entry].replace(" iommu=pt", "")
    host.files[host.entry.replace("6.12.1", "6.12.0")] = old
    assert run(host, check=True, iommu="pt")["changed"]


def test_what_grubby_has_replaced_comes_back() -> None:
    host = GrubbyHost()
    run(host, iommu="pt")
    assert "intel_iommu=off" not in host.words
    run(host, state="absent")
    assert "intel_iommu=off" in host.words


def test_without_options_nothing_is_asked_of_any_program() -> None:
    host = GrubHost()
    host.ran.clear()
    assert not run(host)["changed"]
    assert host.ran == []


WORDS = st.lists(st.sampled_from(["quiet", "iommu=pt", "iommu=off", "intel_iommu=on", "a=b,c"]))


@given(WORDS, WORDS, st.sampled_from(["", "3f1c-0a"]))
def test_what_is_remembered_is_read_again(added: list[str], replaced: list[str], boot: str) -> None:
    kept = HostRecord(CommandLine(tuple(added), tuple(replaced), boot))
    assert parse(dump(kept)) == kept


@given(st.text())
def test_texts_of_loaders_are_read_or_tell_of_nothing(text: str) -> None:
    patterns = (command_line.GRUB, command_line.GRUBBY)
    for found in (command_line.parse(text, pattern) for pattern in patterns):
        assert found is None or isinstance(found, tuple)
    command_line.entries([text], text)


@given(WORDS, WORDS)
def test_what_is_added_is_there_and_the_rest_stays(words: list[str], more: list[str]) -> None:
    after = command_line.edited(words, more, ())
    assert [one for one in words if one not in after] == []
    assert after[len(after) - len(more) :] == tuple(more)
    assert command_line.edited(after, (), more) == tuple(one for one in words if one not in more)


@pytest.mark.parametrize("word", ['"iommu=pt"', 'iommu="pt"', "iommu=pt"])
def test_a_parameter_in_quotes_is_there_already(word: str) -> None:
    assert command_line.lacking((word, "intel-iommu=on"), ("intel_iommu=on", "iommu=pt")) == ()


def test_quoted_blanks_of_somebody_else_stay_in_the_command_line_of_systemd_boot() -> None:
    host = SystemdBootHost()
    theirs = 'dyndbg="file  drivers/pci/* +p"'
    host.files["/etc/kernel/cmdline"] = f"root=/dev/sda1 {theirs} ro\n"
    run(host, iommu="pt")
    assert theirs in host.next()
    run(host, iommu="unmanaged")
    assert host.files["/etc/kernel/cmdline"] == f"root=/dev/sda1 {theirs} ro\n"


def test_an_iommu_that_is_off_in_quotes_is_refused_by_its_name() -> None:
    host = GrubHost("AuthenticAMD")
    host.words += ' "amd-iommu=off"'
    host.run(["update-grub"])
    assert "amd-iommu=off" in refused(host, iommu="pt").cause
