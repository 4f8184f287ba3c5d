# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Makes the MIG layout that the node's label names, as soon as nothing is in the way."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._base.gpu import IN_USE
from .._shared._base.services.mig import STATUS as MIG_STATUS
from .._shared._base.steps import Plan
from .._shared._generated.mig import SPEC
from .._shared._machine.host import Host
from .._shared._mig import boot as mig_boot
from .._shared._mig.capability import MigCapability
from .._shared._mig.config import Declared
from .._shared._mig.label import ANSWER, ASKED, CHOSEN, FAILED, PENDING, SUCCESS, Request, refusal
from .._shared._node.users.busy import Busy
from ..tools import bounded, files, logs
from ..tools.chores import Backoff
from ..tools.files import StateFile
from .driver import Quiet
from .mig import Outcome

PAUSES: Final = (5.0, 30.0)  # between two looks whether what is in use has become free
TICK: Final = 1.0
LOCK_SECONDS: Final = 60
DEFAULTS: Final = {name: option.get("default") for name, option in SPEC["argument_spec"].items()}


@dataclass(frozen=True)
class Paths:
    """The files of this service.

    Attributes:
        config: The declared layouts.
        asked: The request, by the label.
        answer: The answer to it.
        chosen: The layout that the label chose last.
        status: The state of the layout, as after a boot.
    """

    config: Path = Path(mig_boot.CONFIG)
    asked: Path = Path(ASKED)
    answer: Path = Path(ANSWER)
    chosen: Path = Path(CHOSEN)
    status: Path = Path(MIG_STATUS)


@dataclass(frozen=True)
class Result:
    """The result of an attempt; without a state there is nothing to report."""

    state: str = ""
    reason: str = ""


class MigByLabel:
    """Carries requests out. ``host`` is the machine."""

    def __init__(self, paths: Paths, host: Host) -> None:
        self._paths, self._host = paths, host
        self._answer = StateFile(paths.answer)
        self._written = Result()

    def run(self) -> None:
        """Carry out the request, and those that take its place, until there is nothing left to do."""
        logs.notify("READY=1")
        pauses = Backoff(*PAUSES)
        while (request := self._asked()) is not None:
            result = self._tried(request)
            self._report(request, result)
            if self._asked() == request:
                if result.state != PENDING:
                    break
                self._pause(request, pauses.failed())
            else:
                pauses.reset()

    def _asked(self) -> Request | None:
        """Return the request, None if there is none that can be read."""
        try:
            return Request.load(bounded.read_text(self._paths.asked), str(self._paths.asked))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, NodeError) as error:
            logs.error("what the label asks for can't be read", cause=error)
            return None

    def _pause(self, request: Request, seconds: float) -> None:
        """Wait for so long, or until there is another request."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._asked() == request:
            logs.notify("WATCHDOG=1")
            time.sleep(TICK)

    def _tried(self, request: Request) -> Result:
        logs.notify("WATCHDOG=1")
        try:
            text = bounded.read_text(self._paths.config)
            declared = Declared.load(text, str(self._paths.config))
            if not declared.by_label:
                return Result(FAILED, f"mig_by_label is not set in {self._paths.config}")
            if not request.name:
                # GPUs stay as they are until the next boot, or run of gpu.node.mig.
                self._paths.chosen.unlink(missing_ok=True)
                return Result()
            if why := refusal(declared, request.name):
                return Result(FAILED, why)
            return self._made(request, declared, text)
        except (OSError, ValueError, NodeError) as error:
            return Result(FAILED, str(error))

    def _made(self, request: Request, declared: Declared, text: str) -> Result:
        """Make a layout, and remember it once it exists. What is in use stays."""
        declared_params = {"config": declared.config, "selected": request.name, "boot": None}
        params = {**DEFAULTS, **declared_params, "lock_timeout": LOCK_SECONDS}
        with contextlib.closing(MigCapability(self._host, params, check_mode=False)) as capability:
            try:
                state = capability.observe()
            except NodeError as error:  # no driver, no lock, no answer of the kubelet: all may come
                return Result(PENDING, str(error))
            if bounded.read_text(self._paths.config) != text:  # before the lock was held
                return Result(PENDING, "what is declared has just changed")
            try:
                plan = self._converged(capability, capability.plan(state), request)
            except Busy as error:
                return Result(PENDING, str(error))
            except NodeError as error:
                in_use = error.details.get("nvml_code") == IN_USE
                return Result(PENDING if in_use else FAILED, str(error))
            files.replace(self._paths.chosen, f"{request.name}\n", durable=True)
        if plan.reboot_required:
            return Result(PENDING, "; ".join(plan.reboot_required))
        outcome = asdict(Outcome(request.name))
        files.replace(self._paths.status, json.dumps(outcome, indent=1) + "\n")
        return Result(SUCCESS)

    def _converged(self, capability: MigCapability, plan: Plan, request: Request) -> Plan:
        """Carry a plan out; an error if the layout is not reached, in which case what could not be made was undone."""
        while plan.steps:
            self._report(request, Result(PENDING, "it is being made"))
            for step in plan.steps:
                logs.info(step.summary)
                capability.apply(step)
                logs.notify("WATCHDOG=1")
            more = plan.more
            plan = capability.plan(capability.observe())
            if plan.steps and not more:
                left = "; ".join(step.summary for step in plan.steps)
                raise NodeError("the GPUs did not reach the layout", cause=f"still to do: {left}")
        return plan

    def _report(self, request: Request, result: Result) -> None:
        """Write the result where everybody can read it, and to the log if it has changed."""
        with contextlib.suppress(OSError):  # a full /run; it is written again
            self._answer.write({"asked": request._asdict(), **asdict(result)})
        if result != self._written:
            name, log = request.name or "(none)", {FAILED: logs.error}.get(result.state, logs.info)
            reason = {"reason": result.reason} if result.reason else {}
            log("MIG layout by label", name=name, state=result.state or "given up", **reason)
        self._written = result


def mig_label(paths: Paths) -> int:
    """Make the layout that the node's label names. Return the exit status."""
    MigByLabel(paths, Quiet()).run()
    return 0
