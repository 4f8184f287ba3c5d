# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps a node's ResourceSlices as they should be, also if others change or delete them, and writes nothing else.

The kubelet deletes them when it starts, and half a minute after the driver's socket fell silent.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from .._shared._base.errors import NodeError
from .._shared._base.text.shown import cut
from .._shared._cluster.machine.api import CONFLICT, GONE, MISSING, ApiError
from ..cluster.watch import BOOKMARK, DELETED, SECONDS, follow
from ..slices.changes import CREATE, DELETE, Change, changes, dropped, plain
from ..tools import logs
from ..tools.chores import Backoff
from .slice_api import NEWER, SliceApi

# Times that a change by somebody else is met with a new look, before there is a pause.
AT_ONCE: Final = 3
LOOK: Final = 600.0  # seconds between two looks, should a watch have missed something
SETTLE: Final = 0.2  # seconds that others' changes are waited for, which come in swarms
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
UNSAFE: Final = frozenset({"DRAPartitionableDevices", "DRAConsumableCapacity"})
Json = dict[str, Any]


class GateOff(NodeError):
    """The API server stores less of a slice than it was sent; without it GPUs would be allocated twice."""

    def __init__(self, gates: Sequence[str]) -> None:
        super().__init__(
            f"ResourceSlices need the feature gate {', '.join(gates)}",
            cause="the API server drops its fields",
            hint=f"{NEWER}, with it on for the API server, the scheduler and kubelets",
        )


@dataclass(frozen=True)
class Standing:
    """The published pool: its generation, and how many slices and devices it has.

    ``problem`` is why it is not, or may not be, as it should be, empty if it is.
    """

    generation: int = 0
    slices: int = 0
    devices: int = 0
    problem: str = "not published yet"


class Publisher:
    """Publishes the slices of want() in two threads, for which nobody waits.

    ``pause`` are the seconds before the first new try after a failure.
    """

    def __init__(self, api: SliceApi, node: str, pause: float = FIRST_PAUSE) -> None:
        self._api, self._node = api, node
        self.standing = Standing()
        self._backoffs = Backoff(pause, LONGEST_PAUSE), Backoff(pause, LONGEST_PAUSE)
        self._news = threading.Condition()
        self._desired: tuple[Json, ...] | None = None
        self._due = self._blind = False
        self._stopping = threading.Event()
        self._version = ""  # from which a watch goes on; empty asks for a look
        # What was heard and what we wrote: name and version, or the UID of what was deleted.
        self._events: list[tuple[str, str]] = []
        self._ours: set[tuple[str, str]] = set()
        # What was sent and stored, where that is less.
        self._sent: dict[str, tuple[Json, Json]] = {}
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("slices", self._publish), ("slice_watch", self._watch))
        ]

    def start(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, and leave the slices to the next process. A call under way is not waited for."""
        with self._news:
            self._stopping.set()
            self._news.notify_all()

    def want(self, specs: Sequence[Json]) -> None:
        """Publish these slices from now on, in place of all others of the node; none removes them.

        If they are the same as before, the API is not called.
        """
        with self._news:
            if tuple(specs) != self._desired:
                self._desired, self._due = tuple(specs), True
                self._news.notify_all()

    def withdraw(self, seconds: float) -> bool:
        """Publish nothing from now on. Return whether nothing is left within so many seconds."""
        self.want(())
        with self._news:
            return self._news.wait_for(lambda: self.standing == Standing(problem=""), seconds)

    def sync(self) -> None:
        """Bring the node's slices to what they should be, once.

        Raises:
            ApiError: if the API server refused, or can't be reached.
            GateOff: if it drops fields of slices without which they must not be published.
        """
        for attempt in range(AT_ONCE):
            desired = self._desired
            if desired is None:
                return
            there, version = self._api.all()
            due = changes(self._node, desired, self._as_sent(there))
            try:
                self._carry_out(due)
            except ApiError as error:
                if error.status not in (CONFLICT, MISSING) or attempt == AT_ONCE - 1:
                    raise
            else:
                self._log_published(
                    desired, [*(item.spec for item in due), *(item["spec"] for item in there)]
                )
                with self._news:
                    self._version = self._version or version
                    self._news.notify_all()
                return

    # --- the thread that writes ---

    def _publish(self) -> None:
        pause = LOOK
        while self._wait(pause):
            try:
                self.sync()
                self._backoffs[0].reset()
                pause = LOOK * random.uniform(0.9, 1.1)
            except Exception as error:  # whatever it is, it must not end the thread unnoticed
                is_known = isinstance(error, NodeError)
                problem = cut(str(error) if is_known else f"{type(error).__name__}: {error}")
                if problem != self.standing.problem:
                    logs.warning("ResourceSlices can't be published, trying again", cause=problem)
                self.standing = replace(self.standing, problem=problem)
                pause = self._backoffs[0].failed()

    def _wait(self, seconds: float) -> bool:
        """Wait until there is something to do, or for so long. Return whether to go on."""
        with self._news:
            if not self._due:
                self._news.wait_for(lambda: self._called() or self._disturbed(), seconds)
            if not self._called() and self._disturbed():
                self._news.wait_for(self._called, SETTLE)
            self._due, self._events = False, []
            return not self._stopping.is_set()

    def _called(self) -> bool:
        return self._due or self._stopping.is_set()

    def _disturbed(self) -> bool:
        """Return whether others wrote; our own writes are events too, maybe before they are answered."""
        return not self._ours.issuperset(self._events)

    def _carry_out(self, due: Sequence[Change]) -> None:
        if due:
            self._ours = set()
        new = [change for change in due if change.action == CREATE]
        for change in new:  # before anybody can see them
            self._gates(change, self._api.trial(change.spec)["spec"])
        owner = self._api.owner() if new else {}
        for change in due:
            if change.action == DELETE and change.before:
                self._delete(change.before)
                continue
            stored = (
                self._api.replace(change.before, change.spec)
                if change.before
                else self._api.create(change.name, change.spec, owner)
            )
            self._ours.add((change.name, str(stored["metadata"]["resourceVersion"])))
            gates = self._gates(change, stored["spec"])
            self._sent.pop(change.name, None)
            if gates:  # the server keeps less than it was sent
                self._sent[change.name] = plain(change.spec), plain(stored["spec"])
                logs.warning("the API server drops a part of ResourceSlices", gates=gates)

    def _delete(self, published: Mapping[str, Any]) -> None:
        meta = published["metadata"]
        self._ours.add((meta["name"], meta["uid"]))
        self._api.delete(published)

    def _gates(self, sent: Change, stored: Json) -> list[str]:
        """Return the gates that the server lacks. Slices without counters would give a GPU away twice, so none stay."""
        gates = sorted(dropped(sent.spec, stored))
        if set(gates) & UNSAFE:
            for published in self._api.all()[0]:
                self._delete(published)
            raise GateOff(gates)
        return gates

    def _as_sent(self, there: Sequence[Json]) -> list[Json]:
        """Return slices as they were sent, where they are as the server stored them then."""
        result = []
        for published in there:
            sent, stored = self._sent.get(published["metadata"]["name"], ({}, {}))
            unchanged = sent and plain(published["spec"]) == stored
            result.append({**published, "spec": sent} if unchanged else published)
        return result

    def _log_published(self, specs_desired: Sequence[Json], specs: Sequence[Json]) -> None:
        name = specs_desired[0]["pool"]["name"] if specs_desired else ""
        pools = (spec["pool"] for spec in specs if spec)
        generations = (pool.get("generation", 0) for pool in pools if pool["name"] == name)
        devices = sum(len(spec.get("devices", ())) for spec in specs_desired)
        before = self.standing
        problem = self._api.unsafe()
        with self._news:
            self.standing = Standing(
                max(generations, default=0), len(specs_desired), devices, problem
            )
            self._news.notify_all()
        if before != self.standing:
            counts = {"generation": self.standing.generation, "devices": devices}
            logs.info("ResourceSlices are published", slices=len(specs_desired), **counts)

    # --- the thread that watches ---

    def _watch(self) -> None:
        follow(self._begin, self._listen, self._lost, self._stopping, self._backoffs[1])

    def _begin(self) -> str:
        """Return the version of the last look, or of a new one where it is not known what happened since."""
        with self._news:
            if self._blind:
                self._version, self._due, self._blind = "", True, False
                self._news.notify_all()
            self._news.wait_for(lambda: self._version or self._stopping.is_set())
            return self._version

    def _listen(self, since: str) -> Iterator[str]:
        for kind, published, version in self._api.follow(since, random.randint(*SECONDS)):
            meta = published["metadata"]
            with self._news:
                self._version = version
                if kind != BOOKMARK:
                    mark = meta.get("uid", "") if kind == DELETED else version
                    self._events.append((meta["name"], mark))
                    self._news.notify_all()
            self._backoffs[1].reset()
            yield version

    def _lost(self, error: ApiError) -> None:
        if error.status not in (GONE, 0):  # without an answer, writing fails too
            logs.warning("ResourceSlices can't be watched, looking now and then", cause=error)
        self._blind = True
