# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.validate: it looks at the node and judges it, and leaves it as it was."""

from __future__ import annotations

import contextlib
import functools
import time
import typing as t

from ..._accept.machine.accepted import read_gate_report, unaccepted_of
from ..._base.dra.allocation import owners_in
from ..._base.errors import NodeError, checked_timeout
from ..._base.gpu import TIMEOUT, Gpu, NvmlError
from ..._base.steps import Plan, Step
from ..._device_plugin.machine.dra import status
from ..._device_plugin.machine.status import ask
from ..._device_plugin.registration import KUBELET
from ..._device_plugin.state import CONFIG
from ..._machine.host import Host
from ..._machine.nvml.real import Nvml, open_nvml
from ..._machine.nvml.within import LATE, within
from ..._node.machine.facts import gpus, recorded_gpus
from ..._node.machine.in_service import standing
from ..._node.machine.quarantine import QuarantineFile, seen
from ..._node.quarantine import elsewhere
from ..._node.users.machine.witness import CHECKPOINT
from .check import FAILED, PASSED, WARNING, Check, describe_checks, lines, message, of_state
from .containers import Answer, ContainerState
from .daemon import PluginReport
from .dra import DraFacts, DraReport
from .gpus import GpuState, NotAccepted, SetAside, idle_device
from .machine import driver, runtimes
from .machine.containers import Trial
from .machine.gpus import current, layout
from .node import (
    NodeState,
    ValidateOptions,
    evaluate_checks,
    may_settle,
    required_components,
    summarize,
)
from .services import ServiceState

PAUSE = 0.5
SLOW = f"the driver is slow: NVML has not reported the GPUs within {LATE:g} seconds"
# The kubelet makes the socket when it starts, and the checkpoint once a device plugin has told it of devices.
TRACES = (KUBELET, CHECKPOINT)


class ValidateState(t.NamedTuple):
    """The state of the node, its checks, and how long it took to look, in seconds."""

    node: NodeState
    checks: t.List[Check]
    seconds: float


class ValidateCapability:
    """Checks the driver, the GPUs, what runs containers, the device plugin and what is beside it."""

    name = "validate"

    def __init__(
        self,
        host: Host,
        params: t.Mapping[str, t.Any],
        connect: t.Callable[[], t.ContextManager[Nvml]] = open_nvml,
    ) -> None:
        self._host, self._params, self._connect = host, params, connect
        checked_timeout(params["wait_timeout"], "wait_timeout")
        self._options = ValidateOptions(
            params["gpu_count"],
            params["driver_version"],
            params["driver_source"],
            required_components(params["components"]),
            params["require_kubelet"],
            params["allocation"],
            params["change"],
            params["set_aside_may_be_missing"],
        )

    def observe(self) -> ValidateState:
        """Read the node and check it, once more where something may be on its way; then try containers."""
        begun = time.monotonic()
        deadline = begun + self._params["wait_timeout"]
        while True:
            node = self._node()
            results = evaluate_checks(node, self._options)
            if not may_settle(results) or time.monotonic() >= deadline:
                break
            time.sleep(PAUSE)
        if node.gpus.answering and not node.driver.problem:
            node = node._replace(containers=self._containers(node))
        seconds = round(time.monotonic() - begun, 2)
        return ValidateState(node, evaluate_checks(node, self._options), seconds)

    def _node(self) -> NodeState:
        """Read the node; what cannot be read is a check that does not hold."""
        host, parts = self._host, driver.parts(self._host)
        named = self._options.components
        try:
            aside = SetAside(QuarantineFile(host).read())
        except NodeError as error:
            aside = SetAside(problem=error)
        on_bus = [gpu.address for gpu in gpus(host)]
        present = runtimes.there(host) if not named or "runtime" in named else []
        change, answer = standing(host), ask(host)
        late = answer.rc == 124 and not answer.out
        silent = PluginReport(state="silent", problem=answer.err)
        node = NodeState(
            GpuState(len(on_bus), recorded_gpus(host, on_bus, self._options.gpu_count), aside),
            parts,
            plugin=silent if late else PluginReport.from_answer(answer.out),
            dra=DraFacts(owners_in(host.read(CONFIG)), DraReport.of(status(host))),
            kubelet=any(map(host.exists, TRACES)),
            containers=ContainerState(
                unreached=runtimes.unreached(host),
                runtimes=runtimes.look(
                    host, present, required=self._params["runtime"] if "runtime" in named else ""
                ),
            ),
            services=ServiceState(
                driver.units(host, parts), driver.holds(host), change.change if change else None
            ),
        )
        problem, slow = "", False
        try:
            node = within(LATE, "looking at the GPUs", functools.partial(self._with_gpus, node))
        except NvmlError as error:
            slow = error.code == TIMEOUT
            problem = SLOW if slow else str(error)
            node = node._replace(gpus=node.gpus._replace(layout=layout(host, None, ())))
        return node._replace(driver=driver.look(host, problem, slow=slow))

    def _with_gpus(self, node: NodeState) -> NodeState:
        with self._connect() as nvml:
            answering, broken = nvml.gpus()
            aside = node.gpus.aside
            if aside.quarantine.gpus:
                moved = elsewhere(aside.quarantine, seen(nvml).values())
                aside = aside._replace(elsewhere=moved)
            migs = [mig for gpu in answering for mig in nvml.mig_devices(gpu)]
            idle = ""
            with contextlib.suppress(NvmlError):  # none where the driver does not say who uses them
                free = [gpu for gpu in answering if aside.quarantine.of(gpu.uuid) is None]
                processes = [process for gpu in free for process in nvml.processes(gpu)]
                uuids = {gpu.uuid for gpu in free}
                parts = [mig for mig in migs if mig.gpu_uuid in uuids]
                idle = idle_device(free, parts, processes, node.plugin.used)
            state = node.gpus._replace(
                answering=tuple(answering),
                lost=tuple(map(str, broken)),
                mig_uuids=tuple(mig.uuid for mig in migs),
                aside=aside,
                idle=idle,
                layout=layout(self._host, nvml, answering, broken),
                unaccepted=self._unaccepted(answering),
            )
            return node._replace(gpus=state, cdi=current(self._host, nvml))

    def _unaccepted(self, answering: t.Sequence[Gpu]) -> NotAccepted:
        host = self._host
        try:
            return NotAccepted(unaccepted_of(host, answering), gate=read_gate_report(host))
        except NodeError as error:
            return NotAccepted(problem=error)

    def _containers(self, node: NodeState) -> ContainerState:
        """Run a container of each runtime that reads the specification; CUDA in the first one, or beside all."""
        device = node.gpus.idle if self._params["cuda"] else ""
        untried = "every device is in use" if self._params["cuda"] else "the option cuda is off"
        trial, answers = Trial(self._host), dict[str, Answer]()
        names = {name for name, check in node.containers.runtimes.items() if check.state == PASSED}
        able = []
        if self._params["containers"] and names:
            able = [each for each in runtimes.there(self._host) if each.kind.name in names]
        for runtime in able:
            answers[runtime.kind.name] = trial.run(runtime, "" if _tried(answers) else device)
        beside = trial.beside(device) if device and not _tried(answers) else None
        client = None
        if self._params["cuda"] and node.plugin.free_shares:
            # A client of MPS that has a share as a pod has it.
            share = node.plugin.free_shares[0]
            tries = (trial.run(runtime, share.device, share) for runtime in able)
            client = next((answer for answer in tries if not answer.unknown), None)
            client = client or trial.beside(share.device, share)
        return node.containers._replace(
            answers=answers, beside=beside, client=client, cuda_unknown=untried
        )

    def plan(self, state: ValidateState) -> Plan:
        """There is never anything to do; what does not hold is an error, unless that was not wanted."""
        if self._params["fail"] and of_state(state.checks, FAILED):
            raise NodeError(message(state.checks), **_describe(state))
        return Plan(warnings=tuple(map(str, of_state(state.checks, WARNING))))

    def apply(self, step: Step) -> None:
        """Nothing is ever planned."""

    def result(self, state: ValidateState, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the checks."""
        return _describe(state)


def _tried(answers: t.Mapping[str, Answer]) -> bool:
    return any(answer.cuda is not None for answer in answers.values())


def _describe(state: ValidateState) -> t.Dict[str, t.Any]:
    more = {"lines": lines(state.checks), "seconds": state.seconds}
    return {**describe_checks(state.checks), "summary": summarize(state.node, state.checks), **more}
