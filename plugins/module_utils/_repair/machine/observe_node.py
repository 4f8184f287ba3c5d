# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node tells of its faults outside of NVML: the kernel's log, and the services and switches of NVLink."""

from __future__ import annotations

import re
import typing as t

from ..._base.services.driver import FABRIC_SERVICE
from ..._base.text.shown import counted, printable
from ..._machine.host import Host
from ..._machine.units import properties
from ..._node.machine import facts
from .. import kernel_log
from ..signs import NodeSigns, Virtual
from .observe_nvml import NvmlAnswer

SECONDS = 60.0  # that reading a log may take
LINES, WIDTH = 50_000, 400
# Nothing of the input is in these: when the log is to begin comes as an argument. The newest lines are kept.
KEPT = f"grep -aE '{kernel_log.WORDS}' | cut -b1-{WIDTH}"
JOURNAL = (
    'journalctl --dmesg --quiet --no-pager --output=short-unix --reverse --since="@$1"'
    f" | {KEPT} | head -n {LINES}"
)
RING_BUFFER = f"dmesg | {KEPT} | tail -n {LINES}"
DRIVERS = "/proc/driver/nvidia/gpus"  # a folder for each GPU that the driver has
INFORMATION = re.compile(r"^(GPU UUID|Device Minor|GPU Excluded):\s+(\S+)\s*$", re.M)
UUID = re.compile("GPU-[0-9a-fA-F-]{36}")
FABRIC_PROGRAM = "nv-fabricmanage"  # as the kernel cuts it; in a container it is no service


class DriverGpu(t.NamedTuple):
    """A GPU that the driver has: its UUID and its device's minor number, each empty where the driver does not tell."""

    uuid: str = ""
    minor: str = ""


class Log(t.NamedTuple):
    """What was read of the kernel's log, and what of it was not."""

    logged: kernel_log.LoggedFaults
    warnings: t.Tuple[str, ...] = ()


class Fabric(t.NamedTuple):
    """NVSwitches and their service. ``restarted`` is when it was started again after a stop, 0 where it was not."""

    switches: bool
    runs: t.Optional[bool]
    restarted: float = 0.0


def driver_gpus(host: Host) -> t.Dict[str, DriverGpu]:
    """Return the GPUs that the driver has, by their PCI addresses, without those that it excludes."""
    gpus = {}
    for address in host.listdir(DRIVERS):
        fields = dict(INFORMATION.findall(host.read(f"{DRIVERS}/{address}/information") or ""))
        uuid = fields.get("GPU UUID", "")
        if fields.get("GPU Excluded") != "Yes":
            minor = fields.get("Device Minor", "")
            gpus[address] = DriverGpu(uuid if UUID.fullmatch(uuid) else "", minor)
    return gpus


def log(host: Host, current_time: float, since: float) -> Log:
    """Return what the kernel has logged since a time of this boot, in seconds since 1970."""
    argv = ["sh", "-c", JOURNAL, "sh", str(max(0, int(since)))]
    completed = host.run(argv, check=False, timeout=SECONDS)
    lines = list(kernel_log.journal(completed.out))
    undated = _undated(completed.out)
    if not lines:
        completed = host.run(["sh", "-c", RING_BUFFER], check=False, timeout=SECONDS)
        lines = list(kernel_log.ring_buffer(completed.out, booted=current_time - uptime(host)))
        undated += _undated(completed.out)
    warnings = []
    if completed.rc == 124:
        warnings.append(f"the kernel's log could not be read within {SECONDS:g} s")
    if completed.out.count("\n") >= LINES:
        warnings.append(f"of the kernel's log the newest {LINES} lines about GPUs were read")
    logged = kernel_log.read(line for line in lines if line[0] >= since)
    return Log(logged, (*warnings, *_unread([*logged.unread, *undated])))


def _undated(text: str) -> t.List[str]:
    """Return the lines that begin with no time in either log's form."""
    forms = kernel_log.JOURNAL, kernel_log.RING_BUFFER
    return [
        line
        for line in text.split("\n")
        if line and not any(form.fullmatch(line) for form in forms)
    ]


def _unread(lines: t.Sequence[str]) -> t.Iterator[str]:
    """Yield a warning about lines that passed the filter and could not be read, with one of them."""
    if lines:
        yield (
            f"{counted(len(lines), 'line')} of the kernel's log about XIDs or SXIDs could not be read, and no verdict"
            f" counts them: {printable(lines[0])!r}. Next step: see journalctl -k -g 'Xid', judge the GPU by hand"
            " (gpu.node.quarantine sets it aside), and report the line"
        )


def uptime(host: Host) -> float:
    """Return the seconds since the boot."""
    return float((host.read("/proc/uptime") or "0").split()[0])


def fabric(host: Host, current_time: float) -> Fabric:
    """Return what NVLink has of switches, and whether the fabric manager runs; None where it is not needed."""
    switches = any(pci_device.kind == "nvswitch" for pci_device in facts.pci_devices(host))
    switches = switches or bool(facts.gpus(host) and facts.bridges(host))
    times = ("ActiveEnterTimestampMonotonic", "InactiveEnterTimestampMonotonic")
    unit = properties(host, FABRIC_SERVICE, "ActiveState", *times)
    runs = unit.get("ActiveState") == "active" or _is_there(host, FABRIC_PROGRAM)
    started, ended = (_microseconds(unit.get(time, "")) for time in times)
    again = runs and 0 < ended < started
    at = current_time - uptime(host) + started / 1e6 if again else 0.0
    return Fabric(switches, runs if runs or switches else None, at)


def node(host: Host, asked: t.Collection[NvmlAnswer], branch: int, links: Fabric) -> NodeSigns:
    """Return what kind of machine it is to its GPUs, by what they tell and by what is on the PCI bus."""
    modes = [gpu.virtual for gpu in asked if gpu.virtual is not None]
    # One that is passed through says so, however the others answer.
    order = (Virtual.VGPU, Virtual.PASSTHROUGH, Virtual.NONE)
    # Switches of a rack are in none of its machines.
    switched = links.switches or any(gpu.links and gpu.links.switch for gpu in asked)
    return NodeSigns(
        branch,
        next((mode for mode in order if mode in modes), None) or virtual(host),
        nvswitch=switched,
        nvlink=max((gpu.nvlink for gpu in asked if gpu.nvlink is not None), default=None),
        fabric_manager=bool(links.runs) if switched else links.runs,
    )


def virtual(host: Host) -> t.Optional[Virtual]:
    """Return what the machine is where no GPU tells: bare metal, or not known."""
    completed = host.run(["systemd-detect-virt", "--vm"], check=False)
    return Virtual.NONE if completed.out.strip() == "none" else None


def _is_there(host: Host, program: str) -> bool:
    pids = (name for name in host.listdir("/proc") if name.isdigit())
    return any(facts.proc(host, pid, "comm").strip() == program for pid in pids)


def _microseconds(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 20 else 0
