# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.gpu_reset: who is on a GPU, what makes way, the reset, and whether it came back."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._base.errors import NodeError, checked_timeout
from ..._base.services import mig
from ..._base.services.driver import FABRIC_SERVICE
from ..._base.steps import Plan, Step
from ..._machine.host import Host
from ..._node.machine import resets
from ..._node.resets import REBOOT, in_use
from ..._node.users.busy import FAIL, WAIT, Busy
from ..._node.users.holders import advice
from ..._node.users.machine import allocated
from ..._node.users.machine.services import Services
from ..verdict import reset_rule
from . import machine, plan
from .plan import ResetGroup
from .state import ResetGpu, ResetState, lost_settings

POLL_SECONDS = 1.0
# What only looks at GPUs now and then, such as nvidia-smi, has let go of them by then.
PATIENCE_SECONDS = 10.0
AGAIN = "see the kernel's log, bring up the driver, and run again"


class GpuResetCapability:
    """Resets GPUs, and brings back what made way for it."""

    name = "gpu_reset"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._params, self._check_mode = host, params, check_mode
        self._services = Services(host, params["stop_services"])
        checked_timeout(params["lock_timeout"])
        seconds = checked_timeout(params["wait_timeout"], "wait_timeout")
        waits = params["on_busy"] == WAIT and not check_mode
        self._deadline = time.monotonic() + seconds if waits else 0.0
        self._waited = params["wait_timeout"] if waits else None
        self._stack = contextlib.ExitStack()
        self._locked = check_mode
        self._first: t.Dict[str, ResetGpu] = {}
        self._before: t.Dict[str, ResetGpu] = {}
        self._reset: t.List[str] = []
        self._advice = ""
        self._state = ResetState()

    # --- observe ---

    def observe(self) -> ResetState:
        """Read the GPUs, and who has those that are to be reset; the lock is held from the first look on."""
        if not self._locked:
            lock = self._host.lock(mig.LOCK, timeout=self._params["lock_timeout"])
            self._stack.enter_context(lock)
            self._locked = True
        while True:
            with self._bringing_back():
                self._state = state = self._look()
            if time.monotonic() >= self._deadline or not any(one.users for one in state.gpus):
                break
            time.sleep(POLL_SECONDS)
        self._first = self._first or {one.uuid: one for one in state.gpus}
        return state

    def _look(self) -> ResetState:
        state = machine.observe(self._host)
        wanted: t.List[ResetGpu] = []
        with contextlib.suppress(NodeError):  # the plan says what is wrong
            wanted = [one for group in self._groups(state) for one in group.gpus]
        return self._with_users(state, wanted) if wanted else state

    def _with_users(self, state: ResetState, wanted: t.Sequence[ResetGpu]) -> ResetState:
        """Return a state with those who have some of its GPUs. NodeError: that is not known."""
        asks = self._params["on_allocated"] != "ignore"
        given = allocated.observe(self._host) if asks else ()
        found = machine.users(self._host, wanted, state.gpus, given, self._services.stops)
        processes = [each for one in found.values() for each in one.processes]
        self._advice = advice(processes, [each for one in found.values() for each in one.pods])
        gpus = (
            one._replace(users=found[one.uuid].texts, servers=found[one.uuid].servers)
            if one.uuid in found
            else one
            for one in state.gpus
        )
        return state._replace(gpus=tuple(gpus))

    # --- plan ---

    def plan(self, state: ResetState) -> Plan:
        """Plan for all GPUs; refuse before anything is changed, and bring back what an earlier run has left."""
        with self._bringing_back():
            found, also = self._plan(state)
            return self._services.around(found, also)

    @contextlib.contextmanager
    def _bringing_back(self) -> t.Iterator[None]:
        """Start again what is stopped, by this run or by one that was killed, before an error of a with statement."""
        try:
            yield
        except NodeError:
            if not self._check_mode:
                self._services.end()
            raise

    def _groups(self, state: ResetState) -> t.List[ResetGroup]:
        if state.problem:
            raise NodeError("the GPUs can't be asked", cause=state.problem, hint=AGAIN)
        left = [
            one
            for one in plan.chosen_gpus(state, self._params["gpus"])
            if one.uuid not in self._reset
        ]
        if self._params["reset"] == plan.WHEN_NEEDED:
            for one in left:
                plan.refuse_hopeless(state, one)
            left = [one for one in left if plan.needs_reset(state, one)]
        return plan.group_gpus(state, left, together=self._params["together"])

    def _plan(self, state: ResetState) -> t.Tuple[Plan, t.List[str]]:
        groups = self._groups(state)
        gpus = [one for group in groups for one in group.gpus]
        warnings = [text for one in gpus for text in plan.warnings(state, one)]
        also = self._makes_way(state, groups)
        blocked = [user for one in gpus for user in one.users]
        if blocked:
            self._services.check()
            warnings += self._about_users(gpus)
        asked = plan.chosen_gpus(state, self._params["gpus"])
        before = plan.described(state, [*asked, *(one for one in gpus if one not in asked)])
        found = Plan(
            tuple(plan.steps(groups)),
            before,
            plan.after(before, gpus),
            blocked_by=tuple(dict.fromkeys(blocked)),
            refused=bool(blocked) and self._params["on_busy"] == FAIL,
            warnings=tuple(warnings),
        )
        return found, also

    def _about_users(self, gpus: t.Sequence[ResetGpu]) -> t.List[str]:
        """Return a warning about GPUs in use in check mode, or raise Busy."""
        try:
            plan.refuse_used(gpus, self._advice, self._waited)
        except Busy as error:
            if not self._check_mode:
                raise
            words = "would wait" if self._params["on_busy"] == WAIT else "would be refused"
            return [f"gpu_reset: {words}: {error}"]
        return []

    def _makes_way(self, state: ResetState, groups: t.Sequence[ResetGroup]) -> t.List[str]:
        """Return what makes way besides services that the user named, in the order of stopping."""
        gpus = [one for group in groups for one in group.gpus]
        if not gpus:
            return []
        persistent = [one.uuid for one in gpus if one.persistent]
        fabric = any(one.whole for one in groups) and plan.stops_fabric(state)
        return [
            *state.ours,
            *resets.makes_way(self._host, persistent),
            *([FABRIC_SERVICE] if fabric else []),
        ]

    # --- apply ---

    def apply(self, step: Step) -> None:
        """Carry out a step; where it fails, what made way is brought back before that is told."""
        with self._bringing_back():
            if step.action == plan.END_SERVER:
                machine.end_server(self._host, self._gpu(step.params["gpu"]), step)
            elif not self._services.apply(step):
                self._make(step)

    def _make(self, step: Step) -> None:
        uuids, whole = step.params["gpus"], step.params["whole"]
        self._refuse_newcomers(uuids)
        self._before.update({uuid: self._gpu(uuid) for uuid in uuids})
        try:
            self._patiently([] if whole else uuids)
            self._reset += uuids
            self._verify(uuids)
        except NodeError as error:
            error.details["reset"] = list(self._reset)
            if in_use(error):  # like any other refusal of one who has the GPU
                error.details["refused"] = True
            raise

    def _refuse_newcomers(self, uuids: t.Sequence[str]) -> None:
        """Refuse where somebody has one of the GPUs though all that is known makes way."""
        state = self._with_users(self._state, [self._gpu(uuid) for uuid in uuids])
        plan.refuse_used([one for one in state.gpus if one.uuid in uuids], self._advice, None)

    def _patiently(self, uuids: t.Sequence[str]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return resets.reset(self._host, uuids)
            except NodeError as error:
                if not in_use(error) or time.monotonic() >= until:
                    raise
            time.sleep(POLL_SECONDS)

    def _verify(self, uuids: t.Sequence[str]) -> None:
        """Ask the GPUs again. NodeError: one did not come back, or still wants what it wanted."""
        state = machine.observe(self._host)
        there = {one.uuid: one for one in state.gpus}
        wrong = {uuid: plan.fault_after_reset(state, there.get(uuid)) for uuid in uuids}
        wrong = {uuid: why for uuid, why in wrong.items() if why}
        if wrong:
            self._reset = [uuid for uuid in self._reset if uuid not in wrong]
            names = ", ".join(str(self._before[uuid]) for uuid in wrong)
            raise NodeError(
                f"{names} did not come back from the reset",
                cause=state.problem or "; ".join(dict.fromkeys(wrong.values())),
                hint=f"{REBOOT}; if it stays so, replace the GPU",
                not_reset=list(wrong),
            )

    def _gpu(self, uuid: str) -> ResetGpu:
        return next(one for one in self._state.gpus if one.uuid == uuid)

    # --- result ---

    def result(self, state: ResetState, found: Plan) -> t.Dict[str, t.Any]:
        """Report what was reset, and what that took."""
        there = {one.uuid: one for one in state.gpus}
        taken = {
            uuid: lost_settings(self._before[uuid], there[uuid])
            for uuid in self._reset
            if uuid in there
        }
        return {
            "reset": list(self._reset),
            "lost": {uuid: one for uuid, one in taken.items() if one},
            "refused": found.refused,
            "gpus": [
                self._reported(state, one) for one in plan.chosen_gpus(state, self._params["gpus"])
            ],
        }

    def _reported(self, state: ResetState, gpu: ResetGpu) -> t.Dict[str, t.Any]:
        first = self._first.get(gpu.uuid, gpu)
        return {
            "uuid": gpu.uuid,
            "index": gpu.number,
            "pci_bus_id": gpu.pci,
            "serial": gpu.serial,
            "asked_for": [one.text for one in plan.reset_reasons(self._state, first) if one.action],
            "asks_for": [one.text for one in plan.reset_reasons(state, gpu) if one.action],
            "rule": reset_rule(state.node, gpu.signs).text,
            "used_by": list(first.users),
        }
