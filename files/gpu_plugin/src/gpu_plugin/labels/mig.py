# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Requests the MIG layout that the node's label names from gpu-mig-label.service, through files.

This process changes no GPU: it writes a request, which starts the service, and reads the service's answer. The service
takes only layouts that the node's own configuration names.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._shared._base.errors import NodeError
from .._shared._mig import boot as mig_boot
from .._shared._mig.config import Declared
from .._shared._mig.label import ANSWER, ASKED, CHOSEN, FAILED, Answer, Decision, answered, decide
from ..tools import bounded, files, logs
from ..tools.files import StateUnusable, alive, read

RETRY_AFTER: Final = 30.0  # seconds after which a request without an answer is written again


@dataclass(frozen=True)
class Paths:
    """The files that this process and the service share.

    Attributes:
        config: The layouts, written by gpu.node.mig.
        asked: The request, written by this process.
        answer: The service's answer.
        chosen: The layout that the label chose last, kept by the service for the next boot.
    """

    config: Path = Path(mig_boot.CONFIG)
    asked: Path = Path(ASKED)
    answer: Path = Path(ANSWER)
    chosen: Path = Path(CHOSEN)


class MigByLabel:
    """Follows the node's label. ``decision`` has the state to publish, and the request that it leads to."""

    def __init__(self, paths: Paths, clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self._clock = paths, clock
        self.decision = Decision()
        self._stamp: object = None
        self._declared: Declared | None = None
        self._digest = self._config_problem = ""
        self._asked_at = clock()

    def follow(self, label: str) -> bool:
        """Request the layout that the label names. Return whether the state to publish has changed."""
        self._read_config()
        try:
            state = read(self._paths.answer)
        except StateUnusable:
            state = None
        answer = None if state is None else Answer.of(state, alive=alive(state))
        chosen = self._paths.chosen.exists()
        decision = decide(label, self._declared, self._digest, answer, chosen=chosen)
        if label and self._config_problem:
            decision = Decision(FAILED, self._config_problem)
        if problem := self._write_request(decision, answer):
            decision = decision._replace(reason=problem)
        before, self.decision = self.decision, decision
        return (decision.state, decision.reason) != (before.state, before.reason)

    def _read_config(self) -> None:
        """Read the configuration if its file has changed."""
        stamp = files.stamp(self._paths.config)
        if stamp == self._stamp:
            return
        self._stamp, self._declared, self._config_problem = stamp, None, ""
        if stamp is None:
            return
        try:
            text = bounded.read_text(self._paths.config)
            declared = Declared.load(text, str(self._paths.config))
            declared.selection()  # for its errors: it checks all layouts
        except (OSError, ValueError, NodeError) as error:
            self._config_problem = str(error)
            return
        self._declared = declared if declared.by_label else None
        self._digest = hashlib.sha256(text.encode()).hexdigest()

    def _write_request(self, decision: Decision, answer: Answer | None) -> str:
        """Write, renew or remove the request. Return why that failed, empty if it did not."""
        path, request, moment = self._paths.asked, decision.request, self._clock()
        try:
            if request is None:
                path.unlink(missing_ok=True)
                return ""
            is_new = bounded.peek(path) != request.dump()
            # Writing it again starts the service again, which may have missed the change.
            is_overdue = moment - self._asked_at >= RETRY_AFTER
            if is_new or (is_overdue and not answered(decision, answer)):
                files.replace(path, request.dump())
                self._asked_at = moment
                logs.info("MIG layout asked for", name=request.name or "(none)")
        except OSError as error:
            return f"can't write {path}: {error.strerror or error}"
        return ""

    def describe(self, label: str) -> dict[str, str] | None:
        """Return the label and its state for the status file, None without a label."""
        if not label:
            return None
        return {"name": label, "state": self.decision.state, "reason": self.decision.reason}
