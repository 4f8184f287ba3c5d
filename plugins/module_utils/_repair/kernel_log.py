# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the kernel's log says of GPUs and NVSwitches, from the lines that journalctl and dmesg print."""

from __future__ import annotations

import re
import typing as t

from .selection import parse_pci_address
from .signs import SXid, Xid

# With --output=short-unix, and of dmesg as it is.
JOURNAL = re.compile(r"(\d{1,11}\.\d{1,6}) \S+ kernel: (.*)", re.ASCII)
# A kernel with CONFIG_PRINTK_CALLER names the thread or processor behind the time.
RING_BUFFER = re.compile(
    r"(?:<\d{1,3}>)?\[ *(\d{1,9}\.\d{1,6})\](?:\[ *[TC]\d{1,10}\])? (.*)", re.ASCII
)
ADDRESS = r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?"
# kernel_rc.c of NVIDIA's open kernel modules writes the MIG instance behind the address: "GPU-I:05 GPU-CI:00".
XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?{ADDRESS}(?: ([^)]{{1,60}}))?\): (\d{{1,5}})\b", re.ASCII | re.I
)
SXID = re.compile(
    rf"nvidia-nvswitch\d{{1,3}}: SXid \(PCI:{ADDRESS}\): (\d{{1,5}}), (Fatal|Non-fatal)\b",
    re.ASCII | re.I,
)
# An SXID's further lines, which repeat its number with its raw data.
SXID_DATA = re.compile(r"nvidia-nvswitch\d{1,3}: SXid \([^)]{1,60}\): \d{1,5}, (Severity|Data)\b")
FAULT = re.compile(r"NVRM: Xid|nvidia-nvswitch\d{1,3}: SXid")
NAMED = re.compile(rf"NVRM: GPU at PCI:{ADDRESS}: (GPU-[0-9a-f-]{{36}})\b", re.ASCII | re.I)
LOADED = re.compile(r"NVRM: loading NVIDIA UNIX ")
# What of the log has to be read for these, by grep's extended expressions.
WORDS = r"NVRM: (Xid|GPU at|loading )|nvidia-nvswitch[0-9]+: SXid"

Line = t.Tuple[float, str]  # seconds since 1970, and the message


class Event(t.NamedTuple):
    """One XID in the log: its time in seconds since 1970 and the MIG instance, empty if it is of the whole GPU."""

    at: float
    instance: str = ""


class LoggedFaults(t.NamedTuple):
    """XIDs and SXIDs since the driver was loaded last, each with all its times; GPUs' UUIDs by their addresses.

    ``unread`` are the lines that report an XID or SXID in a form that is not known.
    """

    by_gpu: t.Mapping[str, t.Mapping[int, t.Tuple[Event, ...]]] = {}
    by_switch: t.Mapping[t.Tuple[int, bool], t.Tuple[float, ...]] = {}
    uuids: t.Mapping[str, str] = {}
    unread: t.Tuple[str, ...] = ()

    def xids(self, address: str, since: float = 0.0) -> t.Tuple[Xid, ...]:
        """Return the XIDs of the GPU at a PCI address after a time, in seconds since 1970, by their numbers."""
        return tuple(
            Xid(
                number,
                max(event.at for event in recent),
                len(recent),
                tuple(sorted({event.instance for event in recent if event.instance})),
            )
            for number, events in sorted(self.by_gpu.get(address, {}).items())
            for recent in [[event for event in events if event.at > since]]
            if recent
        )

    def sxids(self, since: float = 0.0) -> t.Tuple[SXid, ...]:
        """Return the same of NVSwitches. The log does not say whether a port is one of a trunk."""
        return tuple(
            SXid(number, fatal, None, max(recent), len(recent))
            for (number, fatal), times in sorted(self.by_switch.items())
            for recent in [[at for at in times if at > since]]
            if recent
        )


def journal(text: str) -> t.Iterator[Line]:
    """Yield the lines of journalctl."""
    for match in filter(None, map(JOURNAL.fullmatch, text.split("\n"))):
        yield float(match[1]), match[2]


def ring_buffer(text: str, booted: float) -> t.Iterator[Line]:
    """Yield the lines of dmesg, which counts seconds from the boot on."""
    for match in filter(None, map(RING_BUFFER.fullmatch, text.split("\n"))):
        yield booted + float(match[1]), match[2]


def read(lines: t.Iterable[Line]) -> LoggedFaults:
    """Return what lines in any order say."""
    every = list(lines)
    loaded = max((at for at, text in every if LOADED.match(text)), default=0.0)
    gpus: t.Dict[str, t.Dict[int, t.List[Event]]] = {}
    switches: t.Dict[t.Tuple[int, bool], t.List[float]] = {}
    uuids: t.Dict[str, str] = {}
    unread: t.List[str] = []
    for at, text in every:
        xid, sxid, named = XID.match(text), SXID.match(text), NAMED.match(text)
        if named:
            uuids[parse_pci_address(named[1])] = named[2]
        elif xid and at >= loaded:
            event = Event(at, (xid[2] or "").strip())
            gpus.setdefault(parse_pci_address(xid[1]), {}).setdefault(int(xid[3]), []).append(event)
        elif sxid and at >= loaded:
            key = int(sxid[2]), sxid[3].lower() == "fatal"
            switches.setdefault(key, []).append(at)
        elif at >= loaded and FAULT.match(text) and not SXID_DATA.match(text):
            unread.append(text)
    return LoggedFaults(
        {
            gpu: {number: tuple(events) for number, events in numbers.items()}
            for gpu, numbers in gpus.items()
        },
        {key: tuple(at) for key, at in switches.items()},
        uuids,
        tuple(unread),
    )
