# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Services that hold GPUs open: they are stopped for a change, and started after it in any case."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import typing as t

from ...._base.errors import InputError, NodeError
from ...._base.services import dcgm
from ...._base.steps import IDLE_GPU, Plan, Step
from ...._machine.host import Host
from ...._machine.units import properties, systemctl
from ...machine.facts import boot_id
from .. import services
from ..holders import DISPLAY_UNITS, DISPLAYS
from ..services import RECORD, Service, Stopped
from ..users import User
from .users import gpu_users

SECONDS = 120.0  # for commands that need the driver
RUNNING = ("active", "activating", "reloading")
# By these dependencies a service is stopped together with the one that it needs.
NEEDED_BY = ("RequiredBy", "BoundBy", "ConsistsOf")


class Services:
    """The services that the user names, and DCGM's that gpu.node.dcgm manages."""

    def __init__(self, host: Host, listed: t.Iterable[str]) -> None:
        self._host, self._listed = host, services.parse(listed)
        self._names: t.Optional[t.FrozenSet[str]] = None
        self._warnings: t.List[str] = []

    # --- observe ---

    def _all(self) -> t.List[Service]:
        """Return the services with all that would stop with them, in the order of stopping."""
        services_by_unit: t.Dict[str, Service] = {}
        for unit in (*self._listed, *dcgm.managed(self._host.read(dcgm.RECORD))):
            self._add(unit, services_by_unit, ())
        return list(services_by_unit.values())

    def _add(
        self, unit: str, services_by_unit: t.Dict[str, Service], above: t.Tuple[str, ...]
    ) -> None:
        unit_state = properties(self._host, unit, "Id", "LoadState", "ActiveState", *NEEDED_BY)
        unit = unit_state.get("Id") or unit
        if unit in services_by_unit or unit in above:
            return
        for other in " ".join(unit_state.get(key, "") for key in NEEDED_BY).split():
            if other.endswith(".service"):
                if other not in dcgm.managed(self._host.read(dcgm.RECORD)):
                    services.check(unit, other)
                self._add(other, services_by_unit, (*above, unit))
        there = bool(unit_state) and unit_state.get("LoadState") != "not-found"
        services_by_unit[unit] = Service(unit, there, unit_state.get("ActiveState") in RUNNING)

    def stops(self, user: User) -> bool:
        """Return whether a process is of a service that is stopped for a change, or of its graphical session."""
        if user.pod or user.container:
            return False
        if self._names is None:
            self._names = frozenset(service.unit for service in self._all())
        session = user.program in DISPLAYS and bool(self._names & DISPLAY_UNITS)
        return session or user.unit in self._names

    def users(self) -> t.Tuple[User, ...]:
        """Return the processes that have a GPU open and are not stopped for a change."""
        return tuple(gpu_user for gpu_user in gpu_users(self._host) if not self.stops(gpu_user))

    # --- plan ---

    def around(self, planned: Plan, also: t.Iterable[str] = ()) -> Plan:
        """Return a plan with the steps that stop and start services.

        ``also`` is stopped after them, and started before them: more services, or names that ``services.command``
        knows.

        Raises:
            InputError: if a service that the user names is not on the node.
        """
        taking = any(IDLE_GPU in step.needs for step in planned.steps)
        running = list(dict.fromkeys([*self.check(), *also])) if taking else []
        planned = dataclasses.replace(planned, warnings=(*planned.warnings, *self._warnings))
        return around(planned, running, self._left())

    @property
    def unsettled(self) -> bool:
        """Return whether a service that was stopped is not started yet, or there is a warning about one."""
        return bool(self._left() or self._warnings)

    def check(self) -> t.List[str]:
        """Return the services that run, in the order of stopping.

        Raises:
            InputError: if a service that the user names is not on the node.
        """
        every = self._all()
        for service in every:
            if not service.there and service.unit in self._listed:
                raise InputError.of("stop_services", service.unit, "a service that the node has")
        return [service.unit for service in every if service.runs]

    def _left(self) -> t.Tuple[str, ...]:
        """Return the services that were stopped since the node was booted and are not started again."""
        stopped = services.load(self._host.read(RECORD))
        return stopped.units if stopped.boot == boot_id(self._host) else ()

    # --- apply ---

    def apply(self, step: Step) -> bool:
        """Carry out a step that stops or starts services, and return whether it is one."""
        work = {services.STOP: self.stop, services.START: self.start}.get(step.action)
        if work is not None:
            work(step.params["units"])
        return work is not None

    def stop(self, units: t.Sequence[str]) -> None:
        """Stop services; each is recorded first, and all are started again when the process ends."""
        atexit.register(self.end)
        for unit in units:
            self._write((*(stopped for stopped in self._left() if stopped != unit), unit))
            self._turn(unit, on=False)

    def start(self, units: t.Sequence[str]) -> None:
        """Start services again; if one does not start, that is a warning, since the change is made."""
        for unit in units:
            try:
                self._turn(unit, on=True)
            except NodeError as error:
                error.message = f"{unit} was stopped and does not start again"
                self._warnings.append(str(error))
            self._write(tuple(stopped for stopped in self._left() if stopped != unit))
        atexit.unregister(self.end)

    def _turn(self, name: str, *, on: bool) -> None:
        command = services.command(name, on=on)
        if command:
            self._host.run(command, timeout=SECONDS)
        elif on:
            systemctl(self._host, "start", name)
        else:
            systemctl(self._host, "stop", name, advice="or leave it out of stop_services")

    @contextlib.contextmanager
    def started_on_error(self, *, enabled: bool) -> t.Iterator[None]:
        """Start what is stopped, by this run or by one that was killed, before an error of a with statement."""
        try:
            yield
        except NodeError:
            if enabled:
                self.end()
            raise

    def end(self) -> None:
        """Start the services that are still stopped."""
        self.start(tuple(reversed(self._left())))

    def forget(self) -> None:
        """Remove the record if it is of an earlier boot."""
        if not self._left():
            self._host.remove(RECORD)

    def _write(self, units: t.Tuple[str, ...]) -> None:
        if units:
            self._host.write(RECORD, services.dump(Stopped(units, boot_id(self._host))), mode=0o644)
        else:
            self._host.remove(RECORD)


def around(planned: Plan, running: t.Sequence[str], left: t.Sequence[str]) -> Plan:
    """Return a plan that stops running services before the first step that needs idle GPUs, and starts them at the end.

    ``left`` are the services that were stopped before, by this run or one that was interrupted.
    """
    steps, taking = list(planned.steps), [IDLE_GPU in step.needs for step in planned.steps]
    stops = list(running) if any(taking) else []
    if stops:
        summary = f"stop {', '.join(stops)}, to be started again"
        steps.insert(taking.index(True), Step(services.STOP, summary, {"units": stops}))
    starts = list(reversed(list(dict.fromkeys((*left, *stops)))))
    if starts and not planned.more:
        steps.append(Step(services.START, f"start {', '.join(starts)} again", {"units": starts}))
    return dataclasses.replace(planned, steps=tuple(steps))
