# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""At boot: bring the GPUs to the MIG layout that gpu.node.mig has written down."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path

from .._shared._core.errors import NodeError
from .._shared._core.mig import boot as mig_boot
from .._shared._core.mig.config import Selection
from .._shared._host.real import LocalHost
from .._shared._nvml.api import Nvml
from .._shared._nvml.mig import Changes, planned, read
from ..tools import bounded, files, logs
from .common import driver

CONVERGED, WAITING, FAILED = "converged", "waiting", "failed"


@dataclass
class Outcome:
    """How it went: the state of the node and of each GPU, and what went wrong or waits."""

    selected: str = ""
    state: str = CONVERGED
    gpus: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def note(self, uuid: str, state: str, problem: str = "") -> None:
        """Write down how it went with a GPU; the worst of them is the node's state."""
        self.gpus[uuid] = state
        if problem:
            self.problems.append(problem)
        order = (CONVERGED, WAITING, FAILED)
        self.state = max(self.state, state, key=order.index)


def run(config: Path, status: Path, lock: Path, wait: float) -> int:
    """Apply the layout. Returns the exit status: 0 converged, 1 failed, 2 waiting for a reset.

    ``wait`` is how many seconds the driver may take to come up. A GPU that cannot be brought to
    its layout keeps the one that it had, and the others get theirs.
    """
    outcome = Outcome()
    try:
        text = bounded.read(config).decode("utf-8", "replace")
        selection = Selection.of(*mig_boot.load(text, str(config)))
        outcome.selected = selection.label
        with LocalHost().lock(str(lock), timeout=inf), driver(wait) as nvml:
            _converge(nvml, selection, outcome)
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


def _converge(nvml: Nvml, selection: Selection, outcome: Outcome) -> None:
    gpus, broken = nvml.gpus()
    selection.check_broken(broken)
    targets = selection.targets([read(nvml, gpu) for gpu in gpus])
    changes = Changes(nvml)
    for uuid in targets:
        try:
            pending = _converge_gpu(nvml, selection, uuid, changes)
            outcome.note(uuid, WAITING if pending else CONVERGED, pending)
        except NodeError as error:
            outcome.note(uuid, FAILED, str(error))


def _converge_gpu(nvml: Nvml, selection: Selection, uuid: str, changes: Changes) -> str:
    """Apply the plan and look again; older drivers list the profiles only after the mode is on."""
    for _attempt in range(3):
        state, plan = planned(nvml, selection, uuid)
        if not plan.steps:
            return plan.pending
        for step in plan.steps:
            logs.info(step.summary)
            changes.carry_out(step, state)
    raise NodeError(f"GPU {uuid} did not reach the layout")
