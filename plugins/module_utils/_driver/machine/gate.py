# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What stands between a plan and those who use the driver: it is refused, put off, or carried out all the same."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ..._base.errors import NodeError, checked_timeout
from ..._base.steps import Plan
from ..._machine.host import Host
from ..._node.users import holders
from ..._node.users.allocated import names
from ..._node.users.busy import FAIL, PROCEED, WAIT, refuse_if_busy
from ..._node.users.machine import allocated, services
from ..._node.users.machine.users import gpu_users
from ..facts import DriverState
from ..plan import disrupts, replaces

LOOK_SECONDS = 2.0
UNTOUCHED = "GPUs are in use, and the driver was not touched"
PROCEEDS = "nvidia_driver: on_busy is proceed: the driver is changed under {}"


class Gate:
    """Lets no plan through that takes the driver from somebody, unless the user says so."""

    OPTIONS = ("on_busy", "wait_timeout", "on_allocated", "stop_services")

    def __init__(
        self, host: Host, options: t.Mapping[str, t.Any], *, absent: bool, check_mode: bool
    ) -> None:
        self._host, self._absent, self._check_mode = host, absent, check_mode
        self._on_busy = options["on_busy"]
        self._timeout = checked_timeout(options["wait_timeout"], "wait_timeout")
        self._asks_kubelet = options["on_allocated"] != "ignore"
        self.services = services.Services(host, options["stop_services"])
        self._seen: t.Optional[DriverState] = None
        self._deadline = time.monotonic() + self._timeout

    def look(self, state: DriverState) -> t.Tuple[DriverState, t.Tuple[str, ...]]:
        """Return the state with the pods that were allocated GPUs, and a warning if these can't be read."""
        self._seen = state
        try:
            return state.with_loaded(allocated=self._allocated_gpus()), ()
        except NodeError as error:
            if self._on_busy != PROCEED:
                raise
            return state, (f"nvidia_driver: {error}",)

    def _allocated_gpus(self) -> t.Tuple[str, ...]:
        return names(allocated.observe(self._host)) if self._asks_kubelet else ()

    def wait(self, planned: Plan, busy: DriverState) -> DriverState:
        """Return the GPU users that are left after waiting for them, if that was asked for; check mode does not."""
        waits = self._on_busy == WAIT and not self._check_mode and disrupts(planned)
        while waits and blockers(busy) and time.monotonic() < self._deadline:
            time.sleep(LOOK_SECONDS)
            busy = busy.with_loaded(users=self.services.users())
            if not busy.loaded.users:
                busy = busy.with_loaded(allocated=self._allocated_gpus())
        return busy

    def refuse(self, planned: Plan, busy: DriverState) -> t.Optional[Plan]:
        """Refuse a plan that takes the driver from those who have a GPU; in check mode return it with them.

        Returns:
            The plan that check mode shows. None if it takes the driver from nobody, or the user allows that.

        Raises:
            Busy: if the plan is refused.
        """
        puts_off = self._check_mode and self._on_busy == WAIT and disrupts(planned)
        if self._on_busy == PROCEED or not (replaces(planned) or puts_off):
            return None
        if not self._check_mode:
            waited = self._timeout if self._on_busy == WAIT else None
            refuse(busy, absent=self._absent, waited=waited)
        users = blockers(busy)
        refused = self._on_busy == FAIL
        refusal = f"would be refused: {UNTOUCHED}" if refused else "would wait: GPUs are in use"
        note = f"nvidia_driver: {refusal}: {', '.join(users)}"
        warnings = (*planned.warnings, note)
        return dataclasses.replace(planned, blocked_by=users, refused=refused, warnings=warnings)

    def last_look(self) -> None:
        """Refuse a change if a process has a GPU although the services are stopped."""
        if self._on_busy != PROCEED and self._seen is not None:
            state = self._seen.with_loaded(users=gpu_users(self._host), allocated=())
            refuse(state, absent=self._absent)

    def about(self, planned: Plan, busy: DriverState, notes: t.Sequence[str]) -> Plan:
        """Return a plan that is carried out although GPUs are in use, with a warning that names their users."""
        users = blockers(busy)
        messages = [PROCEEDS.format(", ".join(users))] if replaces(planned) else []
        warnings = (*planned.warnings, *messages, *notes)
        return dataclasses.replace(planned, blocked_by=users, warnings=warnings)


def blockers(state: DriverState) -> t.Tuple[str, ...]:
    """Return who uses a GPU, for people: processes, then pods."""
    return (*(f"process {user}" for user in state.loaded.users), *state.loaded.allocated)


def refuse(state: DriverState, *, absent: bool, waited: t.Optional[int] = None) -> None:
    """Raise Busy if anybody has a GPU, with their names and how that ends."""
    ways = holders.advice(state.loaded.users, state.loaded.allocated)
    plays = "drain the node"
    if not absent:
        plays = "run the playbook gpu.node.upgrade_driver, which drains the node"
    hint = f"{plays}, or set nvidia_driver_on_busy (on_busy) to wait or proceed"
    text = UNTOUCHED if waited is None else f"after {waited} s {UNTOUCHED}"
    refuse_if_busy(text, blockers(state), hint=f"{ways}; {hint}" if ways else hint)
