# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The marker of a change in service: the run that has begun it, and whether another run may change the node."""

from __future__ import annotations

import datetime
import json
import re
import typing as t

from .._base.text import json_data
from .._base.text.shown import cut, printable

MARKER = "/var/lib/gpu-node/in-service"
# Markers of earlier versions, and the playbooks that wrote them.
OLDER = {
    "/var/lib/gpu-node/driver-upgrade": "upgrade_driver",
    "/var/lib/gpu-node/mig-change": "mig",
}
TIME = "%Y-%m-%dT%H:%M:%SZ"
NAMED = re.compile(r"gpu\.node\.(\w+)")
ANYWAY = "-e gpu_nodes_take_over=true"


class Change(t.NamedTuple):
    """A change that has begun. A marker of an earlier version has only ``change``.

    Attributes:
        change: The playbook.
        host: The run's controller.
        user: The user there.
        machine: The PID namespace of the process.
        pid: The process.
        process: The identity of the process, since PIDs are reused.
        begun: When it began, in UTC.
        failed: Why it failed, empty if it has not.
    """

    change: str = ""
    host: str = ""
    user: str = ""
    machine: str = ""
    pid: int = 0
    process: str = ""
    begun: str = ""
    failed: str = ""

    @classmethod
    def of(cls, data: t.Mapping[str, t.Any]) -> Change:
        """Return the change from JSON."""
        return cls(**{key: data[key] for key in cls._fields if key in data})

    @property
    def run(self) -> t.Tuple[t.Any, ...]:
        """Return the identity of the run."""
        return (self.host, self.machine, self.pid, self.process)

    @property
    def holder(self) -> str:
        """Return a description of the run, empty if the marker is of an earlier version."""
        named = f"{self.user} on {self.host}, process {self.pid} ({self.process})"
        return named if self.host else ""

    @property
    def cause(self) -> str:
        """Return the problem of a node with the marker."""
        author = f" by {self.user} on {self.host}, begun {self.begun}" if self.host else ""
        failed = f", and has failed: {self.failed.rstrip(' .')}" if self.failed else ""
        return f"the node is in the middle of {self.change or 'a change'}{author}{failed}"

    @property
    def next_step(self) -> str:
        """Return the step that ends the change."""
        playbook = self.change or "upgrade_driver"
        return f"run gpu.node.{playbook} to its end, which puts the node back"


class Asked(t.NamedTuple):
    """The user's answer about changes by other controllers: whether they have ended, or after how many seconds."""

    take_over: bool = False
    after: float = 0


def parse(text: str) -> Change:
    """Return the change of a marker; one that can't be read is an earlier version's."""
    try:
        data = json_data.loads(text)
        change = Change.of(data)
        whole = list(map(type, change)) == list(map(type, Change()))
        _time(change.begun)
    except (ValueError, TypeError):
        whole = False
    if not whole:
        named = NAMED.search(text)
        return Change(cut(named[1]) if named else "")
    texts = {key: printable(item) for key, item in data.items() if isinstance(item, str)}
    return Change.of({**data, **texts, "failed": printable(cut(change.failed))})


def from_answer(standing: t.Mapping[str, t.Any]) -> Change:
    """Return the change in a node's answer, which is parsed like a marker, since a node may answer anything."""
    change = parse(json.dumps({key: standing[key] for key in Change._fields if key in standing}))
    playbook = standing.get("change")
    if change.change or not isinstance(playbook, str):
        return change
    return Change(printable(cut(playbook)))


def _time(begun: str) -> datetime.datetime:
    return datetime.datetime.strptime(begun, TIME)


def refusal(
    marker: Change, me: Change, asked: Asked, lives: t.Callable[[int, str], bool], *, finishes: bool
) -> str:
    """Return why a run may not change a node with this marker, empty if the change is its own or was interrupted.

    ``finishes`` is whether the run puts the node back at its end, ``lives`` whether a process of this machine runs.
    """
    here = marker.run[:2] == me.run[:2]
    if marker.host and not marker.failed and marker.run != me.run:
        if here and lives(marker.pid, marker.process):
            return f"{marker.cause}, which goes on as process {marker.pid}. Next step: wait until it has ended"
        if not here and not asked.take_over:
            age = (_time(me.begun) - _time(marker.begun)).total_seconds()
            if age < asked.after:
                return f"{marker.cause}. Next step: see there that it has ended, and run again with {ANYWAY}"
    if finishes or asked.take_over:
        return ""
    return f"{marker.cause}. Next step: {marker.next_step}, or leave it in the middle with {ANYWAY}"
