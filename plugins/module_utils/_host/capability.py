# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.host: the settings of a host that GPUs depend on."""

from __future__ import annotations

import typing as t

from .._base.boot import BootState
from .._base.errors import NodeError, checked_timeout
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.own_files import OwnFiles
from .._node.machine import boot as on_node
from .._node.machine.recorded import existing
from . import boot, iommu, live, memlock
from .command_line import OFF, options_for_mode, parse_vendor
from .live import ACS, HUGEPAGES, DesiredValues, Facts, Values, kind, parse_pages
from .machine import observe
from .machine.loaders import DROP_IN, Loader
from .machine.observe import NOTED
from .state import PATH, HostRecord, Iommu, dump, parse

UNMANAGED = "unmanaged"
NO_BOOT = BootState(None, {}, {}, program=True)


class HostState(t.NamedTuple):
    """The settings of the host, and the record of what they were before.

    Fields that no option asks for, and that nothing was recorded of, are not read and keep their defaults.
    """

    record: HostRecord
    iommu: Iommu
    processor: str = ""
    guests: t.Tuple[str, ...] = ()
    values: Values = {}
    facts: Facts = Facts()
    boot: BootState = NO_BOOT
    limits: t.Mapping[str, str] = {}
    services: t.Tuple[memlock.Service, ...] = ()
    limits_of_others: t.Mapping[str, str] = {}
    logins_without_limits: t.Tuple[str, ...] = ()  # files of PAM whose sessions get no limits


class HostCapability:
    """Sets the IOMMU, values of the running kernel and limits of locked memory, or puts back what they were."""

    name = "host"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any]) -> None:
        self._host = host
        self._absent = params["state"] == "absent"
        self._iommu = "" if self._absent or params["iommu"] == UNMANAGED else str(params["iommu"])
        self._values = DesiredValues()
        if not self._absent:
            governor = params["governor"]
            self._values = DesiredValues(
                acs=params["acs"] != UNMANAGED,
                pages=parse_pages(params["hugepages"]),
                governor="" if governor == UNMANAGED else governor,
                numa=params["numa_balancing"] != UNMANAGED,
            )
        limit = UNMANAGED if self._absent else params["memlock"]
        self._limit = None if limit == UNMANAGED else memlock.parse(limit)
        checked_timeout(params["lock_timeout"])
        self._loader: t.Optional[Loader] = None

    def observe(self) -> HostState:
        """Read the settings that an option manages, or that an earlier run has changed."""
        record = parse(self._host.read(PATH))
        state = HostState(record, observe.booted(self._host))
        if self._iommu or record.command_line.added:
            self._loader, observed = observe.iommu(self._host, record.command_line.added)
            vendor = parse_vendor(self._host.read("/proc/cpuinfo") or "")
            guests = observe.guests(self._host) if self._iommu == OFF else ()
            state = state._replace(iommu=observed, processor=vendor, guests=guests)
        if self._values or record.values:
            state = state._replace(
                values=observe.values(self._host, self._values, record.values),
                facts=observe.facts(self._host, self._values),
            )
        if self._values or self._host.exists(boot.CONFIG):
            state = state._replace(boot=on_node.observe(self._host, boot.BOOT))
        limits = existing(self._host, memlock.PATHS)
        if self._limit is not None or limits:
            state = state._replace(
                limits=limits,
                services=observe.services(self._host),
                limits_of_others=observe.limits_of_others(self._host),
                logins_without_limits=observe.logins_without_limits(self._host),
            )
        return state

    def plan(self, state: HostState) -> Plan:
        """Plan all settings.

        Raises:
            NodeError: if one of them can't be set on this host.
        """
        options = options_for_mode(self._iommu, state.processor)
        command_line = iommu.plan(
            state.iommu, state.record.command_line, self._iommu, options, state.guests
        )
        values = live.plan(state.values, state.record.values, self._values, state.facts)
        boot_steps = boot.BOOT.plan(
            state.boot._replace(program=True),
            boot.text(live.boot_lines(self._values)),
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
        plans = (command_line, values, limits)
        return Plan(
            (*command_line.steps, *values.steps, *boot_steps, *limits.steps),
            {name: value for plan in plans for name, value in plan.before.items()},
            {name: value for plan in plans for name, value in plan.after.items()},
            reboot_required=command_line.reboot_required,
            restart_required=limits.restart_required,
            more=limits.more,
            warnings=tuple(warning for plan in plans for warning in plan.warnings),
        )

    def own(self, _state: HostState) -> OwnFiles:
        """Return the files that only root may write."""
        files = (PATH, DROP_IN, *on_node.files(boot.BOOT), *memlock.PATHS)
        return OwnFiles(self._host, dict.fromkeys(files, 0o644), record=PATH)

    def apply(self, step: Step) -> None:
        """Carry out one step.

        The record is written before the host is changed, so that a run that is killed leaves nothing unrecorded.
        """
        method = {
            iommu.WRITE: self._write_command_line,
            iommu.NOTE: self._note_reboot,
            live.SET: self._set_values,
            live.FORGET: self._forget_values,
        }.get(step.action)
        if method is None:
            on_node.apply(self._host, step)
        else:
            method(step.params)

    def result(self, state: HostState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report the settings of the host."""
        return {
            "state": "absent" if self._absent else "present",
            "iommu": {
                "wanted": self._iommu,
                "in_force": state.iommu.in_force,
                "loader": state.iommu.loader,
            },
            "values": dict(state.values),
        }

    def _write_command_line(self, params: t.Mapping[str, t.Any]) -> None:
        if self._loader is None:
            raise NodeError("the kernel command line was not read yet")
        new, record = params["kept"], parse(self._host.read(PATH))
        self._remember(record._replace(command_line=record.command_line.merged_with(new)))
        self._loader.write(new.added, params["add"], params["remove"])
        self._remember(record._replace(command_line=new))

    def _note_reboot(self, params: t.Mapping[str, t.Any]) -> None:
        if params["lines"]:
            self._host.write(NOTED, "\n".join(params["lines"]) + "\n", mode=0o644)
        else:
            self._host.remove(NOTED)

    def _set_values(self, params: t.Mapping[str, t.Any]) -> None:
        """Set values of one kind, and check huge pages: the kernel takes any number and allocates what it can."""
        names, value = params["names"], params["value"]
        current = observe.values(self._host, self._values, dict.fromkeys(names, value))
        record = parse(self._host.read(PATH))
        before = {name: current[name] for name in names if name in current}
        self._remember(record._replace(values={**before, **record.values}))
        command = "acs_set" if kind(names[0]) == ACS else "put"
        observe.program(self._host, command, value, *names)
        for name in names if kind(names[0]) == HUGEPAGES else ():
            pages, desired = int(self._host.read(name) or 0), int(value)
            message = f"there are {pages} huge pages where {value} are asked for ({name})"
            if pages < desired:
                raise NodeError(
                    message,
                    cause="memory is in pieces",
                    hint="reboot, as the unit asks for them early; or ask for fewer",
                )
            if pages > desired:
                raise NodeError(
                    message, cause="processes use them", hint="end who uses them, then run again"
                )

    def _forget_values(self, params: t.Mapping[str, t.Any]) -> None:
        names, record = params["names"], parse(self._host.read(PATH))
        values = {name: value for name, value in record.values.items() if name not in names}
        self._remember(record._replace(values=values))

    def _remember(self, record: HostRecord) -> None:
        if record == HostRecord():
            self._host.remove(PATH)
        else:
            self._host.write(PATH, dump(record), mode=0o644)
