# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.validate: it looks at the node and judges it, and leaves it as it was."""

from __future__ import annotations

import dataclasses
import functools
import time
import typing as t

from ..._base.dra.allocation import owners_in
from ..._base.errors import NodeError, checked_timeout
from ..._base.gpu import TIMEOUT, Gpu, MigDevice, NvmlError
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
from ..._runtime.machine.engine import Runtime
from .check import FAILED, PASSED, WARNING, Check, lines, message, of_state, told
from .containers import Answer
from .daemon import Daemon
from .dra import Dra
from .dra import Driver as DraDriver
from .gpus import SetAside
from .machine import driver, runtimes
from .machine.containers import Trial
from .machine.gpus import current, layout
from .node import Node, Wanted, checks, components, idle, settles, summary

PAUSE = 0.5
SLOW = f"the driver is slow: NVML has not reported the GPUs within {LATE:g} seconds"
# The kubelet makes the socket when it starts, and the checkpoint once a device plugin has told it of devices.
TRACES = (KUBELET, CHECKPOINT)


class State(t.NamedTuple):
    """The node as it was found, its checks, and how long it took to look, in seconds."""

    node: Node
    found: t.List[Check]
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
        self._wanted = Wanted(
            params["gpu_count"],
            params["driver_version"],
            params["driver_source"],
            components(params["components"]),
            params["require_kubelet"],
            params["allocation"],
            params["change"],
            params["set_aside_may_be_missing"],
        )

    def observe(self) -> State:
        """Read the node and check it, once more where something may be on its way; then try containers."""
        begun = time.monotonic()
        deadline = begun + self._params["wait_timeout"]
        while True:
            node = self._node()
            found = checks(node, self._wanted)
            if not settles(found) or time.monotonic() >= deadline:
                break
            time.sleep(PAUSE)
        node = self._with_containers(node)
        return State(node, checks(node, self._wanted), round(time.monotonic() - begun, 2))

    def _node(self) -> Node:
        """Read the node; what cannot be read is a check that does not hold."""
        host, parts = self._host, driver.parts(self._host)
        named = self._wanted.components
        there = [one.address for one in gpus(host)]
        found = runtimes.there(host) if not named or "runtime" in named else []
        change, said = standing(host), ask(host)
        late = said.rc == 124 and not said.out
        node = Node(
            pci_gpus=len(there),
            recorded=recorded_gpus(host, there, self._wanted.gpu_count),
            aside=_set_aside(host),
            parts=parts,
            daemon=Daemon(state="silent", problem=said.err) if late else Daemon.of(said.out),
            dra=Dra(owners_in(host.read(CONFIG)), DraDriver.of(status(host))),
            kubelet=any(map(host.exists, TRACES)),
            unreached=runtimes.unreached(host),
            runtimes=runtimes.look(
                host, found, required=self._params["runtime"] if "runtime" in named else ""
            ),
            units=driver.units(host, parts),
            holds=driver.holds(host),
            change=change.change if change else None,
        )
        problem, slow = "", False
        try:
            node = within(LATE, "looking at the GPUs", functools.partial(self._with_gpus, node))
        except NvmlError as error:
            slow = error.code == TIMEOUT
            problem = SLOW if slow else str(error)
            node = dataclasses.replace(node, layout=layout(host, None, ()))
        return dataclasses.replace(node, driver=driver.look(host, problem, slow=slow))

    def _with_gpus(self, node: Node) -> Node:
        with self._connect() as nvml:
            found, broken = nvml.gpus()
            aside = node.aside
            if aside.found.gpus:
                there = elsewhere(aside.found, seen(nvml).values())
                aside = aside._replace(elsewhere=there)
            migs = [mig for gpu in found for mig in nvml.mig_devices(gpu)]
            return dataclasses.replace(
                node,
                gpus=tuple(found),
                lost_gpus=tuple(map(str, broken)),
                mig_uuids=tuple(one.uuid for one in migs),
                aside=aside,
                idle=_idle(nvml, _not_aside(found, aside), migs, node.daemon),
                layout=layout(self._host, nvml, found, broken),
                cdi=current(self._host, nvml),
            )

    def _with_containers(self, node: Node) -> Node:
        """Run a container of each runtime that reads the specification; CUDA in the first one, or beside all."""
        if node.driver.problem or not node.gpus:
            return node
        device = node.idle if self._params["cuda"] else ""
        why = "every device is in use" if self._params["cuda"] else "the option cuda is off"
        trial, found = Trial(self._host), dict[str, Answer]()
        able = self._able(node)
        for runtime in able:
            found[runtime.kind.name] = trial.run(runtime, "" if _tried(found) else device)
        beside = trial.beside(device) if device and not _tried(found) else None
        client = self._client(node, trial, able)
        return dataclasses.replace(
            node, containers=found, beside=beside, client=client, cuda_unknown=why
        )

    def _client(self, node: Node, trial: Trial, able: t.Sequence[Runtime]) -> t.Optional[Answer]:
        """Return what a client of MPS says that has a share as a pod has it, None if no share is free."""
        if not (self._params["cuda"] and node.daemon.free_shares):
            return None
        share = node.daemon.free_shares[0]
        for runtime in able:
            answer = trial.run(runtime, share.device, share)
            if not answer.unknown:
                return answer
        return trial.beside(share.device, share)

    def _able(self, node: Node) -> t.List[Runtime]:
        able = {name for name, one in node.runtimes.items() if one.state == PASSED}
        asked = self._params["containers"] and able
        return [one for one in runtimes.there(self._host) if one.kind.name in able] if asked else []

    def plan(self, state: State) -> Plan:
        """There is never anything to do; what does not hold is an error, unless that was not wanted."""
        if self._params["fail"] and of_state(state.found, FAILED):
            raise NodeError(message(state.found), **_told(state))
        return Plan(warnings=tuple(map(str, of_state(state.found, WARNING))))

    def apply(self, step: Step) -> None:
        """Nothing is ever planned."""

    def result(self, state: State, plan: Plan) -> t.Dict[str, t.Any]:
        """Return the checks."""
        return _told(state)


def _tried(found: t.Mapping[str, Answer]) -> bool:
    return any(one.cuda is not None for one in found.values())


def _set_aside(host: Host) -> SetAside:
    try:
        return SetAside(QuarantineFile(host).read())
    except NodeError as error:
        return SetAside(problem=str(error))


def _not_aside(found: t.Sequence[Gpu], aside: SetAside) -> t.List[Gpu]:
    return [one for one in found if aside.found.of(one.uuid) is None]


def _idle(nvml: Nvml, found: t.Sequence[Gpu], migs: t.Sequence[MigDevice], daemon: Daemon) -> str:
    """Return a device of these GPUs that nobody uses, none where the driver does not say who does."""
    migs = [one for one in migs if one.gpu_uuid in {gpu.uuid for gpu in found}]
    try:
        processes = [one for gpu in found for one in nvml.processes(gpu)]
    except NvmlError:
        return ""
    return idle(found, migs, processes, daemon.used)


def _told(state: State) -> t.Dict[str, t.Any]:
    more = {"lines": lines(state.found), "seconds": state.seconds}
    return {**told(state.found), "summary": summary(state.node, state.found), **more}
