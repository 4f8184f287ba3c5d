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
        """Read the GPUs, and the users of those that are to be reset; the lock is held from the first look on."""
        if not self._locked:
            lock = self._host.lock(mig.LOCK, timeout=self._params["lock_timeout"])
            self._stack.enter_context(lock)
            self._locked = True
        while True:
            with self._bringing_back():
                self._state = state = machine.observe(self._host)
                gpus: t.List[ResetGpu] = []
                with contextlib.suppress(NodeError):  # the plan says what is wrong
                    gpus = [gpu for group in self._groups(state) for gpu in group.gpus]
                self._state = state = self._with_users(state, gpus) if gpus else state
            if time.monotonic() >= self._deadline or not any(gpu.users for gpu in state.gpus):
                break
            time.sleep(POLL_SECONDS)
        self._first = self._first or {gpu.uuid: gpu for gpu in state.gpus}
        return state

    def _with_users(self, state: ResetState, gpus: t.Sequence[ResetGpu]) -> ResetState:
        """Return a state with the users of some of its GPUs.

        Raises:
            NodeError: if they are not known.
        """
        asks = self._params["on_allocated"] != "ignore"
        state, self._advice = machine.with_users(
            self._host, state, gpus, self._services.stops, asks_for_pods=asks
        )
        return state

    # --- plan ---

    def plan(self, state: ResetState) -> Plan:
        """Plan for all GPUs; refuse before anything is changed, and bring back what an earlier run has left."""
        with self._bringing_back():
            groups = self._groups(state)
            gpus = [gpu for group in groups for gpu in group.gpus]
            warnings = [text for gpu in gpus for text in plan.warnings(state, gpu)]
            makes_way: t.List[str] = []  # besides services that the user named, in this order
            if gpus:
                persistent = [gpu.uuid for gpu in gpus if gpu.persistent]
                whole = any(group.whole for group in groups) and plan.stops_fabric(state)
                makes_way += [*state.ours, *resets.makes_way(self._host, persistent)]
                makes_way += [FABRIC_SERVICE] if whole else []
            blocked = [user for gpu in gpus for user in gpu.users]
            if blocked:
                self._services.check()
                try:
                    plan.refuse_used(gpus, self._advice, self._waited)
                except Busy as error:
                    if not self._check_mode:
                        raise
                    waits = self._params["on_busy"] == WAIT
                    outcome = "would wait" if waits else "would be refused"
                    warnings.append(f"gpu_reset: {outcome}: {error}")
            asked = plan.chosen_gpus(state, self._params["gpus"])
            before = plan.described(state, [*asked, *(gpu for gpu in gpus if gpu not in asked)])
            result = Plan(
                tuple(plan.steps(groups)),
                before,
                plan.after(before, gpus),
                blocked_by=tuple(dict.fromkeys(blocked)),
                refused=bool(blocked) and self._params["on_busy"] == FAIL,
                warnings=tuple(warnings),
            )
            return self._services.around(result, makes_way)

    def _bringing_back(self) -> t.ContextManager[None]:
        return self._services.started_on_error(enabled=not self._check_mode)

    def _groups(self, state: ResetState) -> t.List[ResetGroup]:
        if state.problem:
            raise NodeError("the GPUs can't be asked", cause=state.problem, hint=AGAIN)
        chosen = plan.chosen_gpus(state, self._params["gpus"])
        gpus = [gpu for gpu in chosen if gpu.uuid not in self._reset]
        if self._params["reset"] == plan.WHEN_NEEDED:
            for gpu in gpus:
                plan.refuse_hopeless(state, gpu)
            gpus = [gpu for gpu in gpus if plan.needs_reset(state, gpu)]
        return plan.group_gpus(state, gpus, together=self._params["together"])

    # --- apply ---

    def apply(self, step: Step) -> None:
        """Carry out a step; where it fails, what made way is brought back before that is told."""
        gpus = {gpu.uuid: gpu for gpu in self._state.gpus}
        with self._bringing_back():
            if step.action == plan.END_SERVER:
                machine.end_server(self._host, gpus[step.params["gpu"]], step)
            elif not self._services.apply(step):
                self._reset_gpus({uuid: gpus[uuid] for uuid in step.params["gpus"]}, step)

    def _reset_gpus(self, gpus: t.Mapping[str, ResetGpu], step: Step) -> None:
        # Somebody may have one of them by now, though all that was known makes way.
        state = self._with_users(self._state, list(gpus.values()))
        plan.refuse_used([gpu for gpu in state.gpus if gpu.uuid in gpus], self._advice, None)
        self._before.update(gpus)
        try:
            until = time.monotonic() + PATIENCE_SECONDS
            while True:
                try:
                    resets.reset(self._host, [] if step.params["whole"] else list(gpus))
                    break
                except NodeError as error:
                    if not in_use(error) or time.monotonic() >= until:
                        raise
                time.sleep(POLL_SECONDS)
            self._reset += gpus
            self._verify(list(gpus))
        except NodeError as error:
            error.details["reset"] = list(self._reset)
            if in_use(error):  # like any other refusal of one who has the GPU
                error.details["refused"] = True
            raise

    def _verify(self, uuids: t.Sequence[str]) -> None:
        """Ask the GPUs again.

        Raises:
            NodeError: if one did not come back, or still asks for what it asked for.
        """
        state = machine.observe(self._host)
        gpus = {gpu.uuid: gpu for gpu in state.gpus}
        faults = {uuid: plan.fault_after_reset(state, gpus.get(uuid)) for uuid in uuids}
        faults = {uuid: fault for uuid, fault in faults.items() if fault}
        if faults:
            self._reset = [uuid for uuid in self._reset if uuid not in faults]
            names = ", ".join(str(self._before[uuid]) for uuid in faults)
            raise NodeError(
                f"{names} did not come back from the reset",
                cause=state.problem or "; ".join(dict.fromkeys(faults.values())),
                hint=f"{REBOOT}; if it stays so, replace the GPU",
                not_reset=list(faults),
            )

    # --- result ---

    def result(self, state: ResetState, planned: Plan) -> t.Dict[str, t.Any]:
        """Report what was reset, and what that took."""
        lost = {
            gpu.uuid: lost_settings(self._before[gpu.uuid], gpu)
            for gpu in state.gpus
            if gpu.uuid in self._reset
        }
        rows = []
        for gpu in plan.chosen_gpus(state, self._params["gpus"]):
            first = self._first.get(gpu.uuid, gpu)
            before = plan.reset_reasons(self._state, first)
            after = plan.reset_reasons(state, gpu)
            rows.append(
                {
                    "uuid": gpu.uuid,
                    "index": gpu.number,
                    "pci_bus_id": gpu.pci,
                    "serial": gpu.serial,
                    "asked_for": [reason.text for reason in before if reason.action],
                    "asks_for": [reason.text for reason in after if reason.action],
                    "rule": reset_rule(state.node, gpu.signs).text,
                    "used_by": list(first.users),
                }
            )
        return {
            "reset": list(self._reset),
            "lost": {uuid: lost[uuid] for uuid in self._reset if lost.get(uuid)},
            "refused": planned.refused,
            "gpus": rows,
        }
