# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""XIDs are heard also in the second after a wait for them has failed."""

from __future__ import annotations

import queue
import threading
from typing import ClassVar

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.gpu import GPU_IS_LOST, NvmlError
from gpu_plugin.driver import nvml
from gpu_plugin.driver.nvml import Ears, Xid

from tests.support.waiting import LIMIT, eventually

XID = Xid("GPU-1", 74, None, None)


class EventSet:
    """An event set of a driver: each wait takes what the test has put for it."""

    lost: ClassVar[set[str]] = set()
    made: ClassVar[list[EventSet]] = []

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self.outcomes: queue.SimpleQueue[Xid | NvmlError] = queue.SimpleQueue()
        self.closed = threading.Event()
        self.made.append(self)

    @property
    def hears(self) -> bool:
        return bool(self.uuids)

    def add(self, uuid: str) -> None:
        if uuid in self.lost:
            raise NvmlError(GPU_IS_LOST, "asking for a GPU's events")
        self.uuids.append(uuid)

    def wait(self, _seconds: float) -> Xid | None:
        found = self.outcomes.get(timeout=LIMIT)
        if isinstance(found, NvmlError):
            raise found
        return found

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[Xid]:
    monkeypatch.setattr(nvml, "XidWatch", EventSet)
    monkeypatch.setattr(nvml, "LASTED", 0.0)
    monkeypatch.setattr(EventSet, "made", [])
    monkeypatch.setattr(EventSet, "lost", set())
    return []


def listening(heard: list[Xid], *uuids: str) -> Ears:
    ears = Ears(heard.append, LIMIT)
    ears.begin()
    for uuid in uuids:
        ears.add(uuid, True)
    ears.keep(uuids)
    return ears


def is_failing(ears: Ears) -> bool:
    """Return whether XIDs are not heard at present."""
    try:
        ears.check()
    except NodeError:
        return True
    return False


def end(ears: Ears) -> None:
    for one in EventSet.made:
        one.outcomes.put(NvmlError(GPU_IS_LOST, "the end of the test"))
    eventually(ears.close)


def test_the_gpus_that_are_left_are_heard_on_at_once(heard: list[Xid]) -> None:
    ears = listening(heard, "GPU-0", "GPU-1")
    (first,) = EventSet.made
    EventSet.lost.add("GPU-0")
    first.outcomes.put(NvmlError(GPU_IS_LOST, "waiting for events"))
    eventually(lambda: len(EventSet.made), 2)
    second = EventSet.made[1]
    second.outcomes.put(XID)
    eventually(lambda: heard, [XID])
    assert second.uuids == ["GPU-1"]
    assert first.closed.is_set()
    ears.check()

    EventSet.lost.clear()
    ears.add("GPU-0", True)  # it is back, which takes an event set of its own
    ears.begin()
    assert len(EventSet.made) == 3
    EventSet.lost.update({"GPU-0", "GPU-1"})
    end(ears)


def test_one_that_fails_at_once_waits_for_the_next_look(
    heard: list[Xid], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "LASTED", LIMIT)
    ears = listening(heard, "GPU-0")
    EventSet.made[0].outcomes.put(NvmlError(GPU_IS_LOST, "waiting for events"))
    eventually(EventSet.made[0].closed.is_set)
    assert len(EventSet.made) == 1
    assert ears.close()


def test_events_fail_until_a_wait_has_succeeded_again(heard: list[Xid]) -> None:
    """Also while the GPUs of another event set are still looked at: an XID in that time would be lost."""
    ears = listening(heard, "GPU-0")
    EventSet.lost.add("GPU-0")  # so that there is no other event set at once
    EventSet.made[0].outcomes.put(NvmlError(GPU_IS_LOST, "waiting for events"))
    eventually(lambda: is_failing(ears))
    EventSet.lost.clear()
    ears.begin()
    assert is_failing(ears)
    ears.add("GPU-0", True)
    ears.keep(["GPU-0"])
    assert is_failing(ears)
    EventSet.made[-1].outcomes.put(XID)
    eventually(lambda: not is_failing(ears))
    assert heard == [XID]
    EventSet.lost.add("GPU-0")
    end(ears)


def test_no_events_fail_where_no_gpu_has_any(heard: list[Xid]) -> None:
    ears = listening(heard, "GPU-0")
    EventSet.lost.add("GPU-0")
    EventSet.made[0].outcomes.put(NvmlError(GPU_IS_LOST, "waiting for events"))
    eventually(lambda: is_failing(ears))
    ears.begin()
    ears.keep([])
    assert not is_failing(ears)
    assert ears.close()
