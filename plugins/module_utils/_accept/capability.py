# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.accept: which GPUs to test, the test while nobody has them, and its record."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.limited import Programs
from .._machine.own_files import OwnFiles
from .._node.gate import Gate
from .._node.machine.facts import boot_id
from .._node.users.busy import FAIL, SKIP
from .._repair.machine.cases import read_clock
from .._repair.reset import machine as reset_machine
from .._repair.reset.machine import IdleGpus
from .._repair.reset.plan import END_SERVER, chosen_gpus, end_servers
from .._repair.reset.state import ResetGpu
from . import plan
from .gate import GateConfig
from .machine import observe, processes
from .machine.switch import FILES, GateSwitch
from .machine.tools import ToolProcesses
from .plan import AcceptState
from .record import PATH, STARTED, Acceptance, Identity, standing_faults
from .result import PASSED, STANDARD, GpuResult
from .verdict import (
    TOOL_FIGURES,
    LoadOutcome,
    ProcessAnswers,
    accessible_pairs,
    is_usable,
    judge,
)


class AcceptCapability:
    """Tests GPUs under load while nobody has them, and records which were accepted."""

    name = "accept"

    def __init__(
        self,
        host: Host,
        params: t.Mapping[str, t.Any],
        *,
        check_mode: bool,
        before_driver: bool = False,
    ) -> None:
        """``before_driver`` is whether the driver may be installed between a check and the test."""
        self._host, self._params, self._check_mode = host, params, check_mode
        self._before_driver = before_driver
        self._options = plan.parse_options(params)
        self._idle = IdleGpus(host, params, self.name, "tested", check_mode=check_mode)
        self._services = self._idle.services
        self._results: t.Dict[str, GpuResult] = {}
        self._state = AcceptState()
        options = self._options
        self._gate = GateSwitch(
            host,
            GateConfig(params["scope"], options.valid_days, options.floors, options.required),
            on=params["gate"],
            override=params["override"],
            unit=options.tests,
        )
        self._gate_after: t.Optional[Gate] = None

    # --- observe ---

    def observe(self) -> AcceptState:
        """Read the GPUs, the record, and the users of those to test; the lock is held from the first look on."""
        self._idle.lock()
        while True:
            with self._idle.restarting():
                state = observe.observe(self._host)._replace(gate=self._gate.observe())
                due = self._due(state)
                self._state = state = self._with_users(state, due) if due else state
            if not self._idle.waits(state.node):
                return state

    def _with_users(self, state: AcceptState, gpus: t.Sequence[ResetGpu]) -> AcceptState:
        return state._replace(node=self._idle.with_users(state.node, gpus))

    def _due(self, state: AcceptState) -> t.List[ResetGpu]:
        """Return the GPUs that are to be tested still.

        Raises:
            NodeError: if the GPUs are not known.
        """
        if not self._tests(state):
            return []
        chosen = chosen_gpus(state.node, self._params["gpus"])
        return plan.due_gpus(state, chosen, self._options, self._results)

    def _tests(self, state: AcceptState) -> bool:
        """Return whether GPUs are to be tested, as far as they are known."""
        return self._options.tests and not (self._before_driver and state.node.problem)

    # --- plan ---

    def plan(self, state: AcceptState) -> Plan:
        """Plan the test of all GPUs that are due; refuse it, or leave GPUs out, where somebody has them."""
        with self._idle.restarting():
            due = self._due(state)
            held = [gpu for gpu in due if gpu.users]
            warnings = self._idle.judge_used(held)
            gpus = [gpu for gpu in due if not gpu.users or self._params["on_busy"] != SKIP]
            steps = end_servers(gpus)
            steps += [plan.test_step(gpus, self._options)] if gpus else []
            before = {str(gpu): plan.reason(state, gpu, self._options) or "accepted" for gpu in due}
            blocked_by = tuple(dict.fromkeys(user for gpu in held for user in gpu.users))
            planned = Plan(
                tuple(steps),
                before,
                {**before, **{str(gpu): "tested" for gpu in gpus}},
                blocked_by=blocked_by,
                refused=bool(held) and self._params["on_busy"] == FAIL,
                warnings=tuple(warnings),
            )
            planned = self._services.around(planned, state.node.ours)
        later = state.node.problem if self._options.tests and not self._tests(state) else ""
        steps = [*self._plan_gate(state), *planned.steps]
        return dataclasses.replace(planned, steps=tuple(steps), later=later)

    def _plan_gate(self, state: AcceptState) -> t.List[Step]:
        """Return the steps of the gate, which holds before the first test what is not accepted."""

        def in_use() -> bool:
            gpus = state.node.gpus
            return bool(gpus) and any(gpu.users for gpu in self._with_users(state, gpus).node.gpus)

        gate = self._gate.gate(state.gate, in_use=in_use) if state.gate else None
        self._gate_after = gate
        return self._gate.steps(state.gate, gate, check_mode=self._check_mode)

    # --- apply ---

    def apply(self, step: Step) -> None:
        """Carry out a step; where it fails, what made way is brought back before that is told."""
        gpus = {gpu.uuid: gpu for gpu in self._state.node.gpus}
        with self._idle.restarting():
            if step.action == END_SERVER:
                reset_machine.end_server(self._host, gpus[step.params["gpu"]], step)
            elif not self._gate.apply(step) and not self._services.apply(step):
                self._test({uuid: gpus[uuid] for uuid in step.params["gpus"]})

    def _test(self, gpus: t.Mapping[str, ResetGpu]) -> None:
        """Test idle GPUs, and write their results down."""
        # Somebody may have one of them by now, though all that was known makes way.
        state = self._with_users(self._state, list(gpus.values()))
        self._idle.refuse_used([gpu for gpu in state.node.gpus if gpu.uuid in gpus])
        host, began = self._host, read_clock()
        boot = boot_id(host)
        identities = {uuid: state.identities.get(uuid, Identity()) for uuid in gpus}
        standing = {
            uuid: standing_faults(state.record.get(uuid), self._options.required) for uuid in gpus
        }
        observe.write_entries(
            host,
            {
                uuid: Acceptance(STARTED, identity, began, boot, faults=standing[uuid])
                for uuid, identity in identities.items()
            },
        )
        self._gate.check()
        outcomes = self._load(gpus)
        self._add_faults(outcomes, began)
        if self._options.level == STANDARD:
            self._run_tools(gpus, outcomes)
            self._add_faults(outcomes, began)
        for uuid, outcome in outcomes.items():
            judged = outcome._replace(faults=(*standing[uuid], *outcome.faults))
            self._results[uuid] = judge(uuid, judged, self._options.floors)
        observe.write_entries(
            host,
            {
                uuid: Acceptance.from_result(result, identities[uuid], read_clock(), boot)
                for uuid, result in self._results.items()
                if uuid in gpus
            },
        )
        self._gate.check()

    def _load(self, gpus: t.Mapping[str, ResetGpu]) -> t.Dict[str, LoadOutcome]:
        """Test GPUs under load, and return what is known of each."""
        programs = Programs(self._host)
        with processes.Readings(gpu.pci for gpu in gpus.values()) as readings:
            own = processes.run_loads(programs, list(gpus), self._options.duration)
            linked = [uuid for uuid in gpus if is_usable(uuid, own[uuid])]
            cpus = {uuid: observe.near_cpus(self._host, gpus[uuid].pci) for uuid in linked}
            links = processes.run_links(programs, cpus) if linked else ProcessAnswers()
        left_out = ProcessAnswers(problem="its own test did not pass")
        return {
            uuid: LoadOutcome(
                own[uuid],
                links if uuid in linked else left_out,
                tuple(peer for peer in linked if peer != uuid),
                readings.of(gpu.pci),
            )
            for uuid, gpu in gpus.items()
        }

    def _add_faults(self, outcomes: t.Dict[str, LoadOutcome], began: float) -> None:
        """Add what the signs and the kernel's log say since a time in seconds since 1970."""
        faults = observe.faults_since(self._host, began)
        for uuid, outcome in outcomes.items():
            texts = (*outcome.faults, *faults.get(uuid, ()))
            outcomes[uuid] = outcome._replace(faults=tuple(dict.fromkeys(texts)))

    def _run_tools(
        self, gpus: t.Mapping[str, ResetGpu], outcomes: t.Dict[str, LoadOutcome]
    ) -> None:
        """Run the tools for the GPUs that have passed so far, and add their results."""
        floors = {
            name: floor for name, floor in self._options.floors.items() if name not in TOOL_FIGURES
        }
        passed = [
            gpus[uuid]
            for uuid, outcome in outcomes.items()
            if judge(uuid, outcome, floors).verdict == PASSED
        ]
        links = next((outcomes[gpu.uuid].links for gpu in passed), ProcessAnswers())
        tools = ToolProcesses(self._host, self._options, accessible_pairs(links))
        results = tools.test(passed) if passed else {}
        skipped = tools.skip([gpu for gpu in gpus.values() if gpu not in passed])
        for uuid, outcome in outcomes.items():
            outcomes[uuid] = outcome._replace(
                level=STANDARD,
                dcgm_level=self._options.required.dcgm,
                tools=results if gpus[uuid] in passed else skipped,
            )

    # --- result ---

    def result(self, state: AcceptState, planned: Plan) -> t.Dict[str, t.Any]:
        """Report each GPU, and fail where one has not passed.

        Raises:
            NodeError: if a GPU is not accepted, unless that was only asked for.
        """
        gate = self._gate_after
        described = self._gate.describe(gate)
        answer = {"gate": described, "refused": planned.refused}
        if not self._tests(state):
            return {"accepted": gate is None or gate.is_open, "gpus": [], **answer}
        chosen = chosen_gpus(state.node, self._params["gpus"])
        rows = [
            plan.describe(state, gpu, self._options, self._results.get(gpu.uuid)) for gpu in chosen
        ]
        if self._params["fail"] and not self._check_mode:
            let_in = gate.override.gpus if gate and gate.override else ()
            counted = [row for row in rows if row["uuid"] not in let_in]
            plan.refuse_unaccepted(counted, described, untested=self._params["on_busy"] != SKIP)
        accepted = all(row["verdict"] == PASSED for row in rows)
        return {"accepted": accepted, "gpus": rows, **answer}

    def own(self, _state: AcceptState) -> OwnFiles:
        """Return what is root's alone."""
        return OwnFiles(self._host, {PATH: 0o600, **FILES})
