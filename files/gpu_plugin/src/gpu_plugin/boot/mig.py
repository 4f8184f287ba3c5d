# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The MIG layout that gpu.node.mig has written down, at boot."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from .._shared._base.dra.checkpoint import load
from .._shared._base.dra.names import CHECKPOINT
from .._shared._base.errors import NodeError
from .._shared._base.services.mig import LOCK_SECONDS
from .._shared._machine.host import Host
from .._shared._machine.nvml.real import Nvml
from .._shared._mig import label
from .._shared._mig.config import Declared, Selection
from .._shared._mig.machine.nvml import Changes, planned, read, set_aside
from .._shared._mig.plan import GpuState, spare
from .._shared._node.users.allocated import Allocation, Devices, claims, holders, parse
from .._shared._node.users.machine.witness import unreported
from ..tools import bounded, files, logs
from ..tools.start_timeout import StartTimeout
from .driver import driver, ended

CONVERGED, WAITING, FAILED = STATES = "converged", "waiting", "failed"
ASK_SECONDS: Final = 20.0


@dataclass
class Outcome:
    """The result: the state of the node and of each GPU, and problems."""

    selected: str = ""
    state: str = CONVERGED
    gpus: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def note(self, uuid: str, state: str, problem: str = "") -> None:
        """Note the state of a GPU; the worst of them is the node's state."""
        self.gpus[uuid] = state
        self.problems += [problem] if problem else []
        self.state = max(self.state, state, key=STATES.index)


def mig(
    config: Path, status: Path, lock: Path, wait: float, pods: Path, patience: float, chosen: Path
) -> int:
    """Apply the layout. Return the exit status: 0 converged, 1 failed, 2 waiting for a reset.

    Containers keep what they have, and pods what the kubelet has given them. A GPU that cannot be brought to its layout
    keeps the one that it had, and the others get theirs.

    Args:
        config: The declared layouts.
        status: The file for the result.
        lock: The lock that changes of MIG layouts take.
        wait: How many seconds the driver may take to come up.
        pods: The kubelet's PodResources socket.
        patience: How many seconds later services wait for this one while nothing happens.
        chosen: The file with the layout that the node's label chose last.
    """
    with StartTimeout(patience) as going:
        exit_status = _mig(config, status, lock, wait, pods, going, chosen)
    return ended(exit_status)


def _mig(
    config: Path,
    status: Path,
    lock: Path,
    wait: float,
    pods: Path,
    going: StartTimeout,
    chosen: Path,
) -> int:
    outcome = Outcome()
    try:
        text = bounded.read(config).decode("utf-8", "replace")
        declared = Declared.load(text, str(config))
        name = bounded.peek(chosen).strip() if declared.by_label else ""
        for warning in label.warnings(declared, name) if name else ():
            logs.warning(warning)
        selection = declared.selection(name)
        outcome.selected = selection.label
        with Host().lock(str(lock), timeout=LOCK_SECONDS), driver(wait) as nvml:
            _converge(nvml, selection, outcome, pods, going)
    except OSError as error:
        outcome.state, outcome.problems = FAILED, [f"can't read {config}: {error.strerror}"]
    except NodeError as error:
        outcome.state = FAILED
        outcome.problems.append(str(error))
    files.replace(status, json.dumps(asdict(outcome), indent=1) + "\n")
    for problem in outcome.problems:
        logs.error(problem)
    logs.info(f"MIG layout {outcome.selected or '(none)'}: {outcome.state}")
    return {CONVERGED: 0, FAILED: 1, WAITING: 2}[outcome.state]


def _converge(
    nvml: Nvml, selection: Selection, outcome: Outcome, pods: Path, going: StartTimeout
) -> None:
    gpus, broken = nvml.gpus()
    aside = set_aside(Host(), gpus, broken)
    if not aside:
        selection.check_broken(broken)
    selection = selection.without(aside)
    changes = Changes(nvml)
    going.renew()
    for uuid in selection.targets([read(nvml, gpu) for gpu in gpus]):
        try:
            pending = _converge_gpu(nvml, selection, uuid, changes, pods, going)
            outcome.note(uuid, WAITING if pending else CONVERGED, pending)
        except NodeError as error:
            outcome.note(uuid, FAILED, str(error))


def _converge_gpu(
    nvml: Nvml, selection: Selection, uuid: str, changes: Changes, pods: Path, going: StartTimeout
) -> str:
    """Apply the plan and look again, since older drivers list the profiles only after the mode is on."""
    for _attempt in range(3):
        state, plan = planned(nvml, selection, uuid)
        if not plan.steps:
            return plan.pending
        if any(step.needs for step in plan.steps):
            spare(_with_holders(state, pods), plan.steps)
        for step in plan.steps:
            logs.info(step.summary)
            changes.carry_out(step, state)
            going.renew()
    raise NodeError(f"GPU {uuid} did not reach the layout")


def _with_holders(state: GpuState, pods: Path) -> GpuState:
    """Return a GPU with the pods and claims that have something of it, also those that the kubelet does not know.

    At a boot there is no container, and the records of the kubelet and the DRA driver are from before.

    Raises:
        NodeError: if the devices of a container can't be read.
    """
    answer = _reported(pods)
    checkpoint = None if answer is None else Host().read(CHECKPOINT)
    reported = answer or ()
    forgotten = unreported(Host(), reported, str(pods), load(checkpoint).values())
    allocations = (*reported, *claims(checkpoint, reported), *forgotten)
    node = [Devices(state.gpu, state.instances, state.devices)]
    return replace(state, holders=holders(allocations, node)[state.gpu.uuid])


def _reported(pods: Path) -> tuple[Allocation, ...] | None:
    """Return the kubelet's allocations, None if no kubelet answers.

    It is asked by another process, since this one has no gRPC.
    """
    if not pods.exists():
        return None
    argv = [sys.executable, "-m", "gpu_plugin", "pods", "--json", "--pod-resources", str(pods)]
    answer = Host().run(argv, check=False, timeout=ASK_SECONDS)
    return None if answer.rc else parse(answer.out)
