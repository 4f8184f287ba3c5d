# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""XIDs and SXIDs in the kernel's log: which GPU they are of, how often, and since when they count."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._repair import kernel_log
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import (
    Action,
    GpuSigns,
    NodeSigns,
    SXid,
    Xid,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.verdict import gpu_reasons
from ansible_collections.gpu.node.plugins.module_utils._repair.xids.table import KNOWN, parse
from hypothesis import given
from hypothesis import strategies as st

AT = 1_800_000_000.0
FELL = (
    "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
FAULT = "NVRM: Xid (PCI:0000:18:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000."
OTHER = "NVRM: Xid (PCI:0000:2a:00): 48, pid=1, name=x, DBE"
NAMED = "NVRM: GPU at PCI:0000:18:00: GPU-e4abf0db-0482-5b2d-9b46-bef34bc9e8ce"
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
# As dmesg had it with driver 580.159.04, when a program wrote beyond an H100's memory.
GENUINE = (
    "[  166.201307] NVRM: Xid (PCI:0000:00:06): 31, pid=2152, name=python3, channel 0x0000000a, intr 00000000. "
    "MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_10 faulted @ 0x8762_1de00000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
)
SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 27 sourcetrack timeout"
MILD = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress (First)"
GPU, SECOND = "0000:18:00.0", "0000:2a:00.0"


def journal(*messages: str, step: float = 1.0) -> str:
    """Return them as journalctl has them with --output=short-unix --reverse."""
    lines = [f"{AT + step * at:.6f} node-1 kernel: {one}" for at, one in enumerate(messages)]
    return "\n".join(reversed(lines))


def read(*messages: str) -> kernel_log.LoggedFaults:
    return kernel_log.read(kernel_log.journal(journal(*messages)))


def test_xids_are_counted_for_each_gpu() -> None:
    found = read(FAULT, OTHER, FAULT, FELL)
    assert found.xids(GPU) == (Xid(31, AT + 2, 2), Xid(79, AT + 3, 1))
    assert found.xids(SECOND) == (Xid(48, AT + 1, 1),)
    assert found.xids("0000:00:00.0") == ()


def test_what_is_older_than_the_last_reset_does_not_count() -> None:
    found = read(FAULT, OTHER, FAULT, FELL)
    assert found.xids(GPU, since=AT + 1) == (Xid(31, AT + 2), Xid(79, AT + 3))
    assert found.xids(GPU, since=AT + 3) == ()


def test_what_an_earlier_load_of_the_driver_has_logged_does_not_count() -> None:
    found = read(FELL, SWITCH, LOADED, FAULT)
    assert found.xids(GPU) == (Xid(31, AT + 3),)
    assert found.sxids() == ()


def test_a_gpu_is_named_by_the_line_before_its_first_xid() -> None:
    assert read(NAMED, FELL).uuids == {GPU: "GPU-e4abf0db-0482-5b2d-9b46-bef34bc9e8ce"}


def test_an_sxid_is_fatal_or_not_and_of_which_kind_of_port_is_not_known() -> None:
    fatal, mild = SXid(24007, True, None, AT + 2, 2), SXid(12028, False, None, AT + 1)
    assert read(SWITCH, MILD, SWITCH).sxids() == (mild, fatal)
    assert read(SWITCH, MILD).sxids(since=AT) == (mild,)


def test_the_ring_buffer_is_read_too() -> None:
    text = f"[    0.000000] Linux version 6.12\n[   12.500000] {FAULT}\n<4>[ 13.000000] {FELL}\n"
    found = kernel_log.read(kernel_log.ring_buffer(text, booted=AT))
    assert found.xids(GPU) == (Xid(31, AT + 12.5), Xid(79, AT + 13))


def test_a_drivers_own_line_of_an_illegal_access_is_read_and_asks_for_a_restart_of_the_program() -> (
    None
):
    found = kernel_log.read(kernel_log.ring_buffer(GENUINE, booted=AT))
    assert found.xids("0000:00:06.0") == (Xid(31, AT + 166.201307),)
    assert parse().xids[31].action is Action.RESTART_APPLICATION


def test_what_a_program_has_put_into_a_line_is_no_line() -> None:
    inside = f"usb 1-1: Product: x {FELL}"
    assert read(inside).xids(GPU) == ()
    assert (
        read("NVRM: Xid (PCI:0000:18:00): 31, name=NVRM: Xid (PCI:0000:2a:00): 79, x").xids(SECOND)
        == ()
    )


def test_a_burst_keeps_its_count_and_its_end() -> None:
    found = read(*[FAULT] * 5000, FELL)
    (burst, fell) = found.xids(GPU)
    assert (burst.number, burst.times, burst.at) == (31, 5000, AT + 4999)
    assert fell.number == 79


# Forms of the open kernel modules' kernel_rc.c and of public reports, with what they report.
REPORTED = [
    ("(PCI:0000:18:00 GPU-I:05): 94, pid=7194, name=python, Contained: CE", GPU, 94, "GPU-I:05"),
    (
        "(PCI:0000:18:00 GPU-I:05 GPU-CI:00): 31, pid=4711, name=python3, Ch 00000008",
        GPU,
        31,
        "GPU-I:05 GPU-CI:00",
    ),
    ("(PCI:000b:00:00): 13, pid=3737626, name=trigger, ChID 000a", "000b:00:00.0", 13, ""),
    ("(PCI:0000:18:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x04084507)", GPU, 145, ""),
    ("(PCI:0000:18:00): 45, pid=1, name=python3, Ch 1 caused by previous Xid 149", GPU, 45, ""),
    ("(PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x2", GPU, 154, ""),
    ("(0000:18:00): 31, Ch 00000008, engmask 00000111", GPU, 31, ""),
]


@pytest.mark.parametrize(("text", "address", "number", "instance"), REPORTED)
def test_each_form_of_an_xid_is_read_with_its_gpu_and_its_mig_instance(
    text: str, address: str, number: int, instance: str
) -> None:
    logged = read(f"NVRM: Xid {text}")
    assert logged.xids(address) == (Xid(number, AT, 1, (instance,) if instance else ()),)
    assert not logged.unread


def test_the_xids_of_all_instances_count_for_their_gpu_and_a_reason_names_them() -> None:
    lines = [
        f"NVRM: Xid (PCI:0000:18:00{of}): 94, pid=1, name=x, Contained"
        for of in ("", " GPU-I:05", " GPU-I:03", " GPU-I:05")
    ]
    (xid,) = read(*lines).xids(GPU)
    assert xid == Xid(94, AT + 3, 4, ("GPU-I:03", "GPU-I:05"))
    (reason,) = gpu_reasons(GpuSigns("GPU-0", xids=(xid,)), NodeSigns(), KNOWN)
    assert reason.action is Action.DRAIN_THEN_RESET
    assert reason.text.endswith(", 4 times, of GPU-I:03, GPU-I:05")


UNREAD = [
    "NVRM: Xid (PCI:0000:18:00 GPU-I:05: 94, pid=1, name=x",
    "NVRM: Xid (GPU 3): 79, GPU has fallen off the bus.",
    "nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Catastrophic, Link 35 LTSSM Fault Up",
]


@pytest.mark.parametrize("line", UNREAD)
def test_a_report_in_an_unknown_form_is_kept_as_unread(line: str) -> None:
    assert read(FAULT, line).unread == (line,)
    assert read(line, LOADED, FAULT).unread == ()


def test_the_data_lines_of_an_sxid_and_a_gpus_name_are_not_unread() -> None:
    data = [
        "nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 24007, Severity 0 Engine instance 35",
        "nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 24007, Data {0x00000000, 0x00000004}",
    ]
    assert read(*data, NAMED, LOADED, f"usb 1-1: Product: {UNREAD[0]}").unread == ()


def test_a_ring_buffer_that_names_the_caller_is_read() -> None:
    lines = kernel_log.ring_buffer(f"[   12.500000][ T4711] {FAULT}\n", booted=AT)
    assert kernel_log.read(lines).xids(GPU) == (Xid(31, AT + 12.5),)


@given(st.text(max_size=200), st.lists(st.sampled_from([FELL, FAULT, OTHER, SWITCH, LOADED])))
def test_whatever_a_log_holds_is_read(noise: str, messages: list[str]) -> None:
    found = kernel_log.read(kernel_log.journal(journal(noise, *messages, noise)))
    after = (
        messages[len(messages) - messages[::-1].index(LOADED) :] if LOADED in messages else messages
    )
    counted = {one.number: one.times for one in found.xids(GPU)}
    wanted = {79: after.count(FELL), 31: after.count(FAULT)}
    assert counted == {number: times for number, times in wanted.items() if times}
    kernel_log.read(kernel_log.ring_buffer(noise, booted=AT))
