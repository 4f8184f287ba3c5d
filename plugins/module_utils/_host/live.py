# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a kernel can be set to while it runs, each value by its file, or by the address of a bridge for its ACS."""

from __future__ import annotations

import re
import typing as t

from .._base.errors import InputError, NodeError
from .._base.steps import Plan, Step
from .._base.text.json_data import is_whole

SET, FORGET = "live", "forget_live"
ACS, HUGEPAGES, GOVERNOR, NUMA = "acs", "hugepages", "governor", "numa_balancing"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
PAGES = "/sys/kernel/mm/hugepages"
POLICIES = "/sys/devices/system/cpu/cpufreq"
NUMA_FILE = "/proc/sys/kernel/numa_balancing"
FILES = re.compile(
    rf"{PAGES}/hugepages-\d+kB/nr_hugepages|{POLICIES}/policy\d+/scaling_governor|{NUMA_FILE}"
)
SIZE = re.compile(r"(\d{1,6})([MG])")
UNITS = {"M": 1 << 10, "G": 1 << 20}  # in KiB
NO_ACS = "0000"
Values = t.Mapping[str, str]


class DesiredValues(t.NamedTuple):
    """What is asked for: ``pages`` are numbers of huge pages by their size in KiB."""

    acs: bool = False
    pages: t.Mapping[int, int] = {}
    governor: str = ""
    numa: bool = False

    def __bool__(self) -> bool:
        return self.acs or bool(self.pages) or bool(self.governor) or self.numa


class Facts(t.NamedTuple):
    """What else decides: guests, whether the kernel is locked down, tuned's profile where it runs, memory in KiB."""

    guests: t.Tuple[str, ...] = ()
    lockdown: str = ""
    tuned: str = ""
    memory: int = 0


def parse_pages(data: t.Mapping[str, t.Any]) -> t.Dict[int, int]:
    """Return numbers of huge pages by their size in KiB.

    Raises:
        InputError: if a size or a number is not valid.
    """
    pages = {}
    for key, value in data.items():
        size = SIZE.fullmatch(str(key))
        if size is None:
            raise InputError.of("hugepages", key, "a size such as 2M or 1G")
        if not is_whole(value) or value < 0:
            raise InputError.of(f"hugepages.{key}", value, "a number of pages")
        pages[int(size[1]) * UNITS[size[2]]] = value
    return pages


def pages_file(size: int) -> str:
    """Return the file with the number of huge pages of a size in KiB."""
    return f"{PAGES}/hugepages-{size}kB/nr_hugepages"


def kind(name: str) -> str:
    """Return the setting that a value belongs to."""
    if ADDRESS.fullmatch(name):
        return ACS
    return HUGEPAGES if name.startswith(PAGES) else GOVERNOR if name.startswith(POLICIES) else NUMA


def is_known(name: str) -> bool:
    """Return whether a name is that of a value which gpu.node sets."""
    return bool(ADDRESS.fullmatch(name) or FILES.fullmatch(name))


def boot_lines(asked: DesiredValues) -> t.List[str]:
    """Return the lines of the program that set the same values at boot."""
    sizes = sorted(asked.pages.items())
    lines = [f'put {count} "$root"{pages_file(size)}' for size, count in sizes]
    lines += ["acs_off"] if asked.acs else []
    if asked.governor:
        lines.append(f'put {asked.governor} "$root"{POLICIES}/policy*/scaling_governor')
    return [*lines, *([f'put 0 "$root"{NUMA_FILE}'] if asked.numa else [])]


def plan(current: Values, record: Values, asked: DesiredValues, facts: Facts) -> Plan:
    """Return the steps to the desired values, and back to the former ones of settings that are no longer desired.

    Raises:
        InputError: if the kernel has no such huge pages, or the node has less memory.
        NodeError: if this host can't be set so.
    """
    settings = {ACS: NO_ACS if asked.acs else "", GOVERNOR: asked.governor, NUMA: "0" * asked.numa}
    # Of the values that there are, those that are asked for.
    target = {name: settings[kind(name)] for name in current if settings.get(kind(name))}
    target.update({pages_file(size): str(count) for size, count in asked.pages.items()})
    over = {name: value for name, value in record.items() if name not in target}
    values = {**over, **target}.items()
    changes = {name: value for name, value in values if current.get(name, value) != value}
    _check(current, changes, asked, facts)
    groups: t.Dict[t.Tuple[str, str, str], t.List[str]] = {}
    for name, value in changes.items():
        groups.setdefault((kind(name), current[name], value), []).append(name)
    steps = []
    for (setting, was, value), names in groups.items():
        where = names[0] + (f" and {len(names) - 1} more" if names[1:] else "")
        summary = f"{setting}: {value} in place of {was} ({where})"
        steps.append(Step(SET, summary, {"names": names, "value": value}))
    if over:
        kinds = ", ".join(sorted(set(map(kind, over))))
        summary = f"forget what {kinds} was before"
        steps.append(Step(FORGET, summary, {"names": tuple(over)}))
    return Plan(
        tuple(steps),
        {name: current[name] for name in changes},
        changes,
        warnings=tuple(_warnings(current, asked)),
    )


def _check(current: Values, changes: Values, asked: DesiredValues, facts: Facts) -> None:
    for size, count in asked.pages.items():
        named = f"hugepages.{size // 1024}M" if size < UNITS["G"] else f"hugepages.{size >> 20}G"
        if pages_file(size) not in current:
            raise InputError.of("hugepages", named[10:], "a size that this kernel has")
        if count * size > facts.memory:
            raise InputError.of(named, count, f"less than the {facts.memory >> 20} GiB of memory")
    kinds = {kind(name) for name in changes}
    if asked.acs and facts.guests:
        raise NodeError(
            "ACS can't be switched off",
            cause=f"this host hands devices to guests, whom it keeps apart: {', '.join(facts.guests)}",
            hint="set host_acs to unmanaged on this host",
        )
    if ACS in kinds and facts.lockdown:
        raise NodeError(
            "ACS can't be changed",
            cause=f"the kernel lets nobody write to PCI devices (lockdown: {facts.lockdown}), as with Secure Boot",
            hint="switch ACS off in the firmware; or turn off Secure Boot, or what else locks the kernel down; or set "
            "host_acs to unmanaged",
        )
    if GOVERNOR in kinds and facts.tuned:
        raise NodeError(
            "the governor can't be set",
            cause=f"tuned runs, and sets it by its profile {facts.tuned}",
            hint="choose a profile with governor=performance by tuned-adm profile, or set host_governor to unmanaged",
        )


def _warnings(current: Values, asked: DesiredValues) -> t.Iterator[str]:
    there = {kind(name) for name in current}
    if asked.acs and ACS not in there:
        yield "host: no bridge above GPUs and NICs has ACS, as in most virtual machines: nothing to switch off"
    if asked.governor and GOVERNOR not in there:
        yield "host: the kernel does not set the clocks of processors, as in virtual machines: no governor to set"
