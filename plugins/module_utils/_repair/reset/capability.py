# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.gpu_reset: who is on a GPU, what makes way, the reset, and whether it came back."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._base.errors import NodeError
from ..._base.services.driver import FABRIC_SERVICE
from ..._base.steps import Plan, Step
from ..._machine.host import Host
from ..._node.machine import resets
from ..._node.resets import REBOOT, in_use
from ..._node.users.busy import FAIL
from ..verdict import reset_rule
from . import machine, plan
from .machine import IdleGpus
from .plan import ResetGroup
from .state import ResetGpu, ResetState, lost_settings

POLL_SECONDS = 1.0
# What only looks at GPUs now and then, such as nvidia-smi, has let go of them by then.
PATIENCE_SECONDS = 10.0


class GpuResetCapability:
    """Resets GPUs, and brings back what made way for it."""

    name = "gpu_reset"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._params = host, params
        self._idle = IdleGpus(host, params, self.name, "reset", check_mode=check_mode)
        self._services = self._idle.services
        self._first: t.Dict[str, ResetGpu] = {}
        self._before: t.Dict[str, ResetGpu] = {}
        self._reset: t.List[str] = []
        self._state = ResetState()

    # --- observe ---

    def observe(self) -> ResetState:
        """Read the GPUs, and the users of those that are to be reset; the lock is held from the first look on."""
        self._idle.lock()
        while True:
            with self._idle.restarting():
                state = machine.observe(self._host)
                gpus: t.List[ResetGpu] = []
                with contextlib.suppress(NodeError):  # the plan says what is wrong
                    gpus = [gpu for group in self._groups(state) for gpu in group.gpus]
                self._state = state = self._idle.with_users(state, gpus) if gpus else state
            if not self._idle.waits(state):
                break
        self._first = self._first or {gpu.uuid: gpu for gpu in state.gpus}
        return state

    # --- plan ---

    def plan(self, state: ResetState) -> Plan:
        """Plan for all GPUs; refuse before anything is changed, and bring back what an earlier run has left."""
        with self._idle.restarting():
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
            warnings += self._idle.judge_used(gpus)
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

    def _groups(self, state: ResetState) -> t.List[ResetGroup]:
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
        with self._idle.restarting():
            if step.action == plan.END_SERVER:
                machine.end_server(self._host, gpus[step.params["gpu"]], step)
            elif not self._services.apply(step):
                self._reset_gpus({uuid: gpus[uuid] for uuid in step.params["gpus"]}, step)

    def _reset_gpus(self, gpus: t.Mapping[str, ResetGpu], step: Step) -> None:
        # Somebody may have one of them by now, though all that was known makes way.
        state = self._idle.with_users(self._state, list(gpus.values()))
        self._idle.refuse_used([gpu for gpu in state.gpus if gpu.uuid in gpus])
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
