# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.host: what GPUs want of their host is read, compared and set."""

from __future__ import annotations

import typing as t

from .._base.boot import BootState
from .._base.errors import NodeError, checked_timeout
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.own_files import OwnFiles
from .._node.machine import boot as on_node
from . import boot, iommu, live, memlock
from .command_line import OFF, asked, processor
from .live import ACS, HUGEPAGES, Asked, Facts, Values, kind, parse_pages
from .machine import observe
from .machine.loaders import DROP_IN, Loader
from .machine.observe import NOTED
from .state import PATH, Iommu, Kept, dump, parse

UNMANAGED = "unmanaged"
NO_BOOT = BootState(None, {}, {}, program=True)


class HostState(t.NamedTuple):
    """What the host is set to, and what is remembered."""

    record: Kept
    iommu: Iommu
    processor: str = ""
    guests: t.Tuple[str, ...] = ()
    values: Values = {}
    facts: Facts = Facts()
    boot: BootState = NO_BOOT
    limits: t.Mapping[str, str] = {}
    services: t.Tuple[memlock.Service, ...] = ()
    limits_of_others: t.Mapping[str, str] = {}
    logins_without_limits: t.Tuple[str, ...] = ()  # files of PAM


class HostCapability:
    """Keeps a host as its GPUs want it."""

    name = "host"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any]) -> None:
        self._host = host
        self._back = params["state"] == "absent"
        self._iommu = "" if self._back or params["iommu"] == UNMANAGED else str(params["iommu"])
        self._asked = Asked() if self._back else _asked(params)
        limit = UNMANAGED if self._back else params["memlock"]
        self._limit = None if limit == UNMANAGED else memlock.parse(limit)
        checked_timeout(params["lock_timeout"])
        self._loader: t.Optional[Loader] = None

    def observe(self) -> HostState:
        """Read the host."""
        record = parse(self._host.read(PATH))
        state = HostState(record, observe.booted(self._host))
        if self._iommu or record.command_line.added:
            self._loader, observed = observe.iommu(self._host, record.command_line.added)
            vendor = processor(self._host.read("/proc/cpuinfo") or "")
            guests = observe.guests(self._host) if self._iommu == OFF else ()
            state = state._replace(iommu=observed, processor=vendor, guests=guests)
        if self._asked or record.values:
            state = state._replace(
                values=observe.values(self._host, self._asked, record.values),
                facts=observe.facts(self._host, self._asked),
            )
        if self._asked or self._host.exists(boot.CONFIG):
            state = state._replace(boot=on_node.observe(self._host, boot.BOOT))
        limits = observe.memlock(self._host)
        if self._limit is not None or limits:
            state = state._replace(
                limits=limits,
                services=observe.services(self._host),
                limits_of_others=observe.limits_of_others(self._host),
                logins_without_limits=observe.logins_without_limits(self._host),
            )
        return state

    def plan(self, state: HostState) -> Plan:
        """Plan each setting; refuse before anything is changed."""
        args = asked(self._iommu, state.processor)
        line = iommu.plan(state.iommu, state.record.command_line, self._iommu, args, state.guests)
        values = live.plan(state.values, state.record.values, self._asked, state.facts)
        again = boot.BOOT.plan(
            state.boot._replace(program=True),
            boot.text(live.boot_lines(self._asked)),
            boot.TEXTS,
            check_mode=False,
        )
        limits = memlock.plan(
            state.limits,
            state.services,
            self._limit,
            state.limits_of_others,
            state.logins_without_limits,
        )
        every = (line, values, limits)
        return Plan(
            (*line.steps, *values.steps, *again, *limits.steps),
            {name: value for part in every for name, value in part.before.items()},
            {name: value for part in every for name, value in part.after.items()},
            reboot_required=line.reboot_required,
            restart_required=limits.restart_required,
            more=limits.more,
            warnings=tuple(warnings for part in every for warnings in part.warnings),
        )

    def own(self, _state: HostState) -> OwnFiles:
        """Return what is root's alone."""
        files = (PATH, DROP_IN, *on_node.files(boot.BOOT), *memlock.PATHS)
        return OwnFiles(self._host, dict.fromkeys(files, 0o644), record=PATH)

    def apply(self, step: Step) -> None:
        """Carry out one step. What is added, and was before, is written down first."""
        work = {
            iommu.WRITE: self._write_line,
            iommu.NOTE: self._note,
            live.SET: self._set,
            live.FORGET: self._forget,
        }.get(step.action)
        if work is None:
            on_node.apply(self._host, step)
        else:
            work(step.params)

    def _note(self, params: t.Mapping[str, t.Any]) -> None:
        if params["lines"]:
            self._host.write(NOTED, "\n".join(params["lines"]) + "\n", mode=0o644)
        else:
            self._host.remove(NOTED)

    def _write_line(self, params: t.Mapping[str, t.Any]) -> None:
        if self._loader is None:
            raise NodeError("the kernel command line was not read yet")
        new, record = params["kept"], parse(self._host.read(PATH))
        self._remember(record._replace(command_line=record.command_line.with_those_of(new)))
        self._loader.write(new.added, params["add"], params["remove"])
        self._remember(record._replace(command_line=new))

    def _set(self, params: t.Mapping[str, t.Any]) -> None:
        names, value = params["names"], params["value"]
        current = observe.values(self._host, self._asked, dict.fromkeys(names, value))
        record = parse(self._host.read(PATH))
        before = {name: current[name] for name in names if name in current}
        self._remember(record._replace(values={**before, **record.values}))
        word = "acs_set" if kind(names[0]) == ACS else "put"
        observe.program(self._host, word, value, *names)
        for name in names if kind(names[0]) == HUGEPAGES else ():
            has = int(self._host.read(name) or 0)
            if has != int(value):
                raise NodeError(
                    f"there are {has} huge pages where {value} are asked for ({name})",
                    cause="memory is in pieces" if has < int(value) else "processes use them",
                    hint="reboot, as the unit asks for them early; or ask for fewer"
                    if has < int(value)
                    else "end who uses them, then run again",
                )

    def _forget(self, params: t.Mapping[str, t.Any]) -> None:
        record = parse(self._host.read(PATH))
        left = {name: value for name, value in record.values.items() if name not in params["names"]}
        self._remember(record._replace(values=left))

    def _remember(self, record: Kept) -> None:
        if record == Kept():
            self._host.remove(PATH)
        else:
            self._host.write(PATH, dump(record), mode=0o644)

    def result(self, state: HostState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report what the host is set to."""
        return {
            "state": "absent" if self._back else "present",
            "iommu": {
                "wanted": self._iommu,
                "in_force": state.iommu.in_force,
                "loader": state.iommu.loader,
            },
            "values": dict(state.values),
        }


def _asked(params: t.Mapping[str, t.Any]) -> Asked:
    governor = params["governor"]
    return Asked(
        acs=params["acs"] != UNMANAGED,
        pages=parse_pages(params["hugepages"]),
        governor="" if governor == UNMANAGED else governor,
        numa=params["numa_balancing"] != UNMANAGED,
    )
