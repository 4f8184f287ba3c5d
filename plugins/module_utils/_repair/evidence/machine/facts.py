# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the machine says of itself and of its GPUs, with bounds on time and size."""

from __future__ import annotations

import os
import typing as t

from ...._base.errors import NodeError
from ...._machine.host import Host
from ...._machine.limited import Ended, Programs
from ...._node.machine import facts
from .. import smi
from ..manifest import Machine
from ..state import EvidenceGpu

SMI_SECONDS, MOST_SMI = 60.0, 4 << 20
MOST_LATE = 2  # answers that are waited for, where nvidia-smi does not answer for all GPUs at once
DMI = "/sys/class/dmi/id"
DMI_FILES = {"vendor": "sys_vendor", "product": "product_name", "serial": "product_serial"}
SLOTS = "/sys/bus/pci/slots"


class SmiAnswers(t.NamedTuple):
    """The GPUs that nvidia-smi tells of, its answers by the names of files, and the problems of those that failed."""

    gpus: t.Tuple[EvidenceGpu, ...]
    answers: t.Mapping[str, bytes]
    problems: t.Mapping[str, str]


def ask_smi(programs: Programs, count: int) -> SmiAnswers:
    """Ask nvidia-smi for all GPUs, and where that fails for each of so many: a lost one ends the answer for all.

    It finds a GPU by its index alone then, as it looks through all for an address, a UUID or a serial number.
    """
    answers: t.Dict[str, bytes] = {}
    problems: t.Dict[str, str] = {}
    whole = "nvidia-smi.txt"
    answers[whole], ended = _answer(programs, "-q")
    if ended.rc == 0:
        asked: t.Mapping[str, t.Sequence[str]] = {"nvidia-smi.xml": ("-q", "-x")}
    else:
        problems[whole] = ended.problem or f"it ended with status {ended.rc}"
        asked = {
            f"nvidia-smi-{index}.xml": ("-q", "-x", "-i", str(index))
            for index in range(min(count, smi.MOST_GPUS))
        }
    gpus: t.List[EvidenceGpu] = []
    late = int(ended.rc is None)
    for name, args in asked.items():
        if late >= MOST_LATE or "not installed" in problems.get(whole, ""):
            problems[name] = problems[whole]
            continue
        answers[name], ended = _answer(programs, *args)
        late += ended.rc is None
        try:
            gpus += smi.parse_gpus(answers[name].decode("utf-8", "replace"))
        except ValueError:
            problems[name] = ended.problem or f"it ended with status {ended.rc}"
    return SmiAnswers(tuple(gpus), answers, problems)


def _answer(programs: Programs, *args: str) -> t.Tuple[bytes, Ended]:
    return programs.answer(["nvidia-smi", *args], MOST_SMI, seconds=SMI_SECONDS)


def machine(host: Host, addresses: t.Iterable[str]) -> Machine:
    """Return what there is to tell of the machine; ``addresses`` are the GPUs' on the PCI bus."""
    system = os.uname()
    driver = facts.loaded_driver(host)
    described = {name: _read(host, f"{DMI}/{file}") for name, file in DMI_FILES.items()}
    described["system"] = facts.os_release(host).get("PRETTY_NAME", "")
    described["kernel"] = system.release
    loaded = driver._asdict() if driver else {"version": "", "module_type": ""}
    versions = {**loaded, "libraries": ", ".join(facts.library_versions(host))}
    places = _slots(host)
    return Machine(
        system.nodename,
        described,
        versions,
        {address: _slot(host, address, places) for address in addresses},
    )


def _slots(host: Host) -> t.Dict[str, str]:
    """Return the names of the machine's slots by the addresses of what is in them, without a function's number."""
    names = host.listdir(SLOTS)
    return {_read(host, f"{SLOTS}/{name}/address"): name for name in names}


def _slot(host: Host, address: str, slots: t.Mapping[str, str]) -> str:
    """Return the slot that a device is in, or the switch above it."""
    folders = host.leads_to(f"{facts.BUS}/{address}").split("/")
    above = (slots.get(folder.partition(".")[0], "") for folder in (address, *reversed(folders)))
    return next(filter(None, above), "")


def _read(host: Host, path: str) -> str:
    try:
        return (host.read(path) or "").strip()
    except NodeError:
        return ""  # some firmware does not let it be read
