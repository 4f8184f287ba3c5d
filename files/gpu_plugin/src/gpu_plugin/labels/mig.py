# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The MIG layout that the node's label names: asked for in a file, and answered by another.

This process changes no GPU. What does is started by the file, and takes only names that the node's own file has.
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

AGAIN: Final = 30.0  # seconds after which what nobody has answered is asked once more


@dataclass(frozen=True)
class Paths:
    """``config`` is what gpu.node.mig has written; ``asked``, ``answer`` and ``chosen`` are of the service."""

    config: Path = Path(mig_boot.CONFIG)
    asked: Path = Path(ASKED)
    answer: Path = Path(ANSWER)
    chosen: Path = Path(CHOSEN)


class MigByLabel:
    """Follows the label; ``decision`` is what is to be said of it."""

    def __init__(self, paths: Paths, clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self._clock = paths, clock
        self.decision = Decision()
        self._stamp: object = None
        self._declared: Declared | None = None
        self._digest = self._damage = ""
        self._asked_at = clock()

    def follow(self, label: str) -> bool:
        """Ask for what the label names. Returns whether there is something else to say than before."""
        self._look()
        answer = self._answer()
        chosen = self._paths.chosen.exists()
        decision = decide(label, self._declared, self._digest, answer, chosen=chosen)
        if label and self._damage:
            decision = Decision(FAILED, self._damage)
        if problem := self._ask(decision, answer):
            decision = decision._replace(reason=problem)
        changed = decision[:2] != self.decision[:2]
        self.decision = decision
        return changed

    def _look(self) -> None:
        """Read what is declared, where it is another file than before."""
        stamp = files.stamp(self._paths.config)
        if stamp == self._stamp:
            return
        self._stamp, self._declared, self._damage = stamp, None, ""
        if stamp is None:
            return
        try:
            text = bounded.read_text(self._paths.config)
            declared = Declared.load(text, str(self._paths.config))
            declared.selection()  # checks all of it
        except (OSError, ValueError, NodeError) as error:
            self._damage = str(error)
            return
        self._declared = declared if declared.by_label else None
        self._digest = hashlib.sha256(text.encode()).hexdigest()

    def _answer(self) -> Answer | None:
        try:
            answer = read(self._paths.answer)
        except StateUnusable:
            return None
        return None if answer is None else Answer.of(answer, alive=alive(answer))

    def _ask(self, decision: Decision, answer: Answer | None) -> str:
        """Bring the file up to date, and write it again where nobody answers. Returns what stands in the way."""
        path, request, moment = self._paths.asked, decision.request, self._clock()
        try:
            if request is None:
                path.unlink(missing_ok=True)
            elif bounded.peek(path) != request.dump() or (
                not answered(decision, answer) and moment - self._asked_at >= AGAIN
            ):
                files.replace(path, request.dump())
                self._asked_at = moment
                logs.info("MIG layout asked for", name=request.name or "(none)")
        except OSError as error:
            return f"can't write {path}: {error.strerror or error}"
        return ""

    def shown(self, label: str) -> dict[str, str] | None:
        """Return what the status shows of it, None where the label asks for nothing."""
        if not label:
            return None
        return {"name": label, "state": self.decision.state, "reason": self.decision.reason}
