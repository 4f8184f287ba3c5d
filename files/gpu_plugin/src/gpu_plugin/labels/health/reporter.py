# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Writes Events and the node's conditions, one at a time, and remembers what it wrote."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ..._shared._cluster.machine.api import JSON, MERGE, MISSING, ApiError
from ...cluster.access import Access
from ...cluster.rate import Rate
from ...tools import logs
from ...tools.chores import Backoff
from ...tools.files import StateFile, recall
from ..owned import METADATA
from . import condition as conditions
from . import events
from .faults import Faults, faults

NAME: Final = "node-health.json"
GRACE: Final = 60.0  # seconds that a plugin may take to start again
PAUSES: Final = (5.0, 300.0)  # before what failed is tried again
BURST, EACH = 25, 10.0  # Events at once, and seconds for each in the long run
EVENT_RIGHTS: Final = (
    "give the kubeconfig's user the right to create and patch events, or set --node-events=false"
)
STATUS_RIGHTS: Final = {
    conditions.HEALTHY: "give the kubeconfig's user the right to patch this node's status, or leave out"
    " --node-condition",
    conditions.ACCEPTED: "give the kubeconfig's user the right to patch this node's status",
}
EVENTS: Final = "events"
ABOUT: Final = (EVENTS, *conditions.TYPES)


class Reporter:
    """Reports the GPUs' health of one node to the cluster. ``access`` is called when there is something to write."""

    def __init__(
        self,
        node: str,
        path: Path,
        access: Callable[[], Access],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._node, self._access, self._clock = node, access, clock
        self._file = StateFile(path, mode=0o600)
        self._rate = Rate(1 / EACH, BURST, clock)
        self._backoff = {about: Backoff(*PAUSES, 0.5) for about in ABOUT}
        self._next = dict.fromkeys(ABOUT, 0.0)
        self._spread = 1.0
        self._seen_at = clock()
        self._events: events.Records = {}
        self._conditions: Mapping[str, Mapping[str, Any]] = {}
        self._problems = dict.fromkeys(ABOUT, "")
        trouble = "what was reported about the GPUs' health is lost"
        memory: dict[str, Any] = recall(path, trouble, lambda data: data, {})
        if memory.get("node") == node:
            self._events = events.usable(memory.get("told"))
            self._conditions = conditions.usable(memory)

    def keep(
        self,
        state: Mapping[str, Any] | None,
        *,
        events_wanted: bool,
        condition: bool,
        accepted: events.Json | None = None,
    ) -> dict[str, str]:
        """Write at most one Event and the conditions, if they are asked for and due.

        ``accepted`` is the condition about the gate, None if the node has none. Return what failed the last time, by
        what it is about.
        """
        moment = self._clock()
        node_faults = faults(state)
        if state is not None:
            self._seen_at = moment
        if events_wanted and node_faults is not None:
            self._try(EVENTS, moment, lambda: self._write_event(node_faults, moment))
        if not condition or state is not None or moment - self._seen_at >= GRACE:
            healthy = conditions.healthy(state, node_faults) if condition else None
            self._keep_condition(conditions.HEALTHY, healthy, moment)
        self._keep_condition(conditions.ACCEPTED, accepted, moment)
        return {about: why for about, why in self._problems.items() if why}

    def _keep_condition(self, kind: str, desired: events.Json | None, moment: float) -> None:
        """Write a condition if it is due, or remove it where it is not desired any more."""
        if desired is not None:
            self._try(kind, moment, lambda: self._write_condition(kind, desired, moment))
        elif kind in self._conditions:
            self._try(kind, moment, lambda: self._remove_condition(kind))

    def retry(self) -> None:
        """Try at once again what has failed, such as for a node that was not in its cluster yet."""
        self._next = dict.fromkeys(ABOUT, 0.0)

    def report_mig(self, name: str, reason: str, *, failed: bool) -> None:
        """Write an Event about the MIG layout that the node's label names; one that is refused is only logged."""
        message = f"{name}: {reason}" if reason else f"the GPUs have the MIG layout {name}"
        kind = events.MIG_FAILED if failed else events.MIG_MADE
        body = events.single(self._node, kind, message, self._clock())
        try:
            self._ask(f"writing an Event of node {self._node}", "POST", events.PATH, body)
        except ApiError as error:
            logs.warning("an Event can't be written", cause=error)

    def remove(self) -> None:
        """Remove the conditions that were written.

        Raises:
            ApiError: if the API does not remove one.
        """
        for kind in tuple(self._conditions):
            self._remove_condition(kind)

    def _remove_condition(self, kind: str) -> None:
        self._patch("removing", kind, conditions.REMOVAL)
        self._conditions = {
            other: self._conditions[other] for other in self._conditions if other != kind
        }
        self._remember()

    def _try(self, about: str, moment: float, work: Callable[[], None]) -> None:
        """Do the work, again after a pause if it fails. Other work of the process goes on meanwhile."""
        if moment < self._next[about] <= moment + PAUSES[1]:  # unless the clock was turned back
            return
        try:
            work()
        except ApiError as error:
            self._problems[about] = str(error)
            self._next[about] = moment + self._backoff[about].failed()
            return
        self._problems[about] = ""
        self._backoff[about].reset()

    def _write_event(self, node_faults: Faults, moment: float) -> None:
        self._events = events.remembered(self._events, moment)
        notice = events.next_notice(node_faults, self._events, self._node, moment)
        if notice is None or not self._rate.ready():
            return
        doing = f"writing an Event of node {self._node}"
        if not notice.again:
            self._ask(doing, "POST", events.PATH, notice.body)
        elif not self._counted(doing, notice):
            return
        self._events = {**self._events, notice.place: notice.record}
        self._remember()
        logs.info("event written", reason=notice.reason, message=notice.body["message"])

    def _counted(self, doing: str, notice: events.Notice) -> bool:
        """Count an Event on. One that the API server has dropped is forgotten, so that it is made anew."""
        try:
            self._ask(doing, "PATCH", f"{events.PATH}/{notice.again}", notice.body)
        except ApiError as error:
            if error.status != MISSING:
                raise
            before = self._events[notice.place]
            left = {key: event for key, event in before["events"].items() if key != notice.reason}
            self._events = {**self._events, notice.place: {**before, "events": left}}
            return False
        return True

    def _ask(self, doing: str, method: str, path: str, body: dict[str, Any]) -> None:
        kind = JSON if method == "POST" else MERGE
        self._access().ask(doing, method, path, body, kind=kind, rights=EVENT_RIGHTS)

    def _write_condition(self, kind: str, desired: events.Json, moment: float) -> None:
        before = self._conditions.get(kind, {})
        condition = conditions.due(desired, before, moment, self._spread)
        if condition is None:
            return
        self._patch("writing", kind, condition)
        if condition["status"] != before.get("status"):
            logs.info("condition written", type=kind, status=condition["status"])
        self._conditions = {**self._conditions, kind: {**condition, "at": moment}}
        self._spread = random.uniform(1, 1.1)
        self._remember()

    def _patch(self, verb: str, kind: str, condition: events.Json) -> None:
        self._access().ask(
            f"{verb} the condition {kind} of node {self._node}",
            "PATCH",
            f"/api/v1/nodes/{self._node}/status",
            conditions.patch(kind, condition),
            kind=conditions.STRATEGIC,
            accept=METADATA,
            rights=STATUS_RIGHTS[kind],
        )

    def _remember(self) -> None:
        memory = {"node": self._node, "told": self._events, "conditions": self._conditions}
        try:
            self._file.write(memory)
        except OSError as error:  # it is reported all the same, and perhaps again after a restart
            logs.warning("what was reported about the GPUs' health can't be kept", cause=error)
