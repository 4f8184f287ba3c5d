# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What runs at boot: the MIG layout that gpu.node.mig has written down, and the CDI specification."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Final

from ._shared._core.allocated import Devices, holders, parse
from ._shared._core.cdi import boot as cdi_boot
from ._shared._core.errors import NodeError
from ._shared._core.gpu import NvmlError
from ._shared._core.mig import boot as mig_boot
from ._shared._core.mig.config import Selection
from ._shared._core.mig.plan import GpuState, spare
from ._shared._host.api import Host
from ._shared._host.cdi import specify
from ._shared._host.driver_files import DriverFiles
from ._shared._nvml.mig import Changes, planned, read
from ._shared._nvml.real import Nvml, inventory, open_nvml
from .tools import bounded, files, jobs, logs
from .tools.patience import READY, Patience

CONVERGED, WAITING, FAILED = STATES = "converged", "waiting", "failed"
# They have GPUs open, or bring NVSwitches up, before a layout is made.
SERVICES: Final = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
POLL_SECONDS: Final = 0.5
ASK_SECONDS: Final = 20.0
ROUNDS: Final = 5


@contextlib.contextmanager
def _driver(wait: float, library: str = "") -> Iterator[Nvml]:
    """Open NVML as soon as NVIDIA's own services have begun, or failed to, and the driver is there."""
    jobs.settle(SERVICES, wait)
    deadline = time.monotonic() + wait
    with contextlib.ExitStack() as stack:
        while True:
            try:
                nvml = stack.enter_context(open_nvml(library))
                break
            except NvmlError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(POLL_SECONDS)
        yield nvml


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
        self.problems += [problem] if problem else []
        self.state = max(self.state, state, key=STATES.index)


def mig(config: Path, status: Path, lock: Path, wait: float, pods: Path, patience: float) -> int:
    """Apply the layout. Returns the exit status: 0 converged, 1 failed, 2 waiting for a reset.

    ``wait`` is how many seconds the driver may take to come up, ``patience`` how many those wait that start
    after this while nothing happens. Where a kubelet answers at the socket ``pods``, this is no boot, and
    what it has given to pods is left to them. A GPU that cannot be brought to its layout keeps the one that
    it had, and the others get theirs.
    """
    with Patience(patience) as going:
        found = _mig(config, status, lock, wait, pods, going)
    return _ended(found)


def _ended(status: int) -> int:
    if status == 0:
        logs.notify(READY)
    return status


def _mig(config: Path, status: Path, lock: Path, wait: float, pods: Path, going: Patience) -> int:
    outcome = Outcome()
    try:
        text = bounded.read(config).decode("utf-8", "replace")
        selection = Selection.of(*mig_boot.load(text, str(config)))
        outcome.selected = selection.label
        with Host().lock(str(lock), timeout=inf), _driver(wait) as nvml:
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
    nvml: Nvml, selection: Selection, outcome: Outcome, pods: Path, going: Patience
) -> None:
    gpus, broken = nvml.gpus()
    selection.check_broken(broken)
    changes = Changes(nvml)
    going.renew()
    for uuid in selection.targets([read(nvml, gpu) for gpu in gpus]):
        try:
            pending = _converge_gpu(nvml, selection, uuid, changes, pods, going)
            outcome.note(uuid, WAITING if pending else CONVERGED, pending)
        except NodeError as error:
            outcome.note(uuid, FAILED, str(error))


def _converge_gpu(
    nvml: Nvml, selection: Selection, uuid: str, changes: Changes, pods: Path, going: Patience
) -> str:
    """Apply the plan and look again; older drivers list the profiles only after the mode is on."""
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
    """Return a GPU with the pods that have something of it, where a kubelet answers.

    It is asked by another process, since this one has no gRPC.
    """
    if not pods.exists():
        return state
    words = [sys.executable, "-m", "gpu_plugin", "pods", "--json", "--pod-resources", str(pods)]
    done = Host().run(words, check=False, timeout=ASK_SECONDS)
    if done.rc:
        return state  # at boot its socket is left from before
    node = [Devices(state.gpu, state.instances, state.devices)]
    return replace(state, holders=holders(parse(done.out), node)[state.gpu.uuid])


def cdi(config: Path, lock: Path, wait: float, patience: float) -> int:
    """Write the specification that gpu.node.cdi would write. Returns the exit status: 1 if it could not.

    ``wait`` is how many seconds the driver may take to come up, ``patience`` how many those wait that start
    after this. A file that was there stays when it does not: to containers it makes no difference, and the
    driver may only be about to change.
    """
    with Patience(patience):
        found = _cdi(config, lock, wait)
    return _ended(found)


def _cdi(config: Path, lock: Path, wait: float) -> int:
    try:
        options = cdi_boot.load(bounded.read(config).decode("utf-8", "replace"), str(config))
        # What changes while this runs starts no service a second time.
        for _round in range(ROUNDS):
            if not _write(options, lock, wait):
                return 0
        logs.warning("the GPUs keep changing; the next change is waited for")
    except OSError as error:
        logs.error(f"can't read {config}: {error.strerror}")
        return 1
    except NodeError as error:
        logs.error(str(error))
        return 1
    return 0


def _write(options: cdi_boot.Options, lock: Path, wait: float) -> bool:
    """Bring the file up to date; tell whether it was not."""
    host = Host()
    driver = DriverFiles(host, options.driver_root)
    with _driver(wait, driver.nvml_library()) as nvml, host.lock(str(lock), timeout=inf):
        wanted, warnings = specify(inventory(nvml), driver, options)
        if (host.read(options.path) or "") == wanted.text:
            return False
        for warning in warnings:
            logs.warning(warning)
        if wanted.text:
            host.write(options.path, wanted.text, mode=0o644)
            logs.info(f"{options.path}: {', '.join(wanted.devices)}")
        else:
            host.remove(options.path)
            logs.info(f"{options.path} removed")
        return True
