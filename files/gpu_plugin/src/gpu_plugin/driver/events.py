# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""XIDs as they come: NVML's events, waited for in a thread of their own."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from .._shared._base.errors import NodeError
from .._shared._base.gpu import NOT_SUPPORTED, TIMEOUT, UNKNOWN_ERROR, NvmlError
from .._shared._machine.nvml.calls import ask_text, doing, instance, or_none, pynvml
from ..tools import logs

WAIT: Final = 1.0  # seconds that NVML is asked to wait for an event
ENDS: Final = 2 * WAIT  # seconds within which a wait that works is over
LASTED: Final = 1.0  # seconds after which an event set that fails did work before


class Xid(NamedTuple):
    """An XID that a GPU reported; the ids of instances are None where it concerns the whole GPU."""

    gpu_uuid: str
    number: int
    gi_id: int | None = None
    ci_id: int | None = None


class XidWatch:
    """An NVML event set. To be used while NVML is open, and closed before it is."""

    def __init__(self) -> None:
        self._uuids: dict[int | None, str] = {}
        self._set = self._create()

    @property
    def hears(self) -> bool:
        """Whether there is a GPU of which it hears."""
        return bool(self._uuids)

    @staticmethod
    @doing("creating an event set")
    def _create() -> Any:
        return pynvml.nvmlEventSetCreate()

    @doing("asking for a GPU's events")
    def add(self, uuid: str) -> None:
        """Hear of a GPU too, where it has events."""
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        wanted = pynvml.nvmlEventTypeXidCriticalError
        if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & wanted:
            return
        self._uuids[_address(handle)] = uuid  # one may come before the next call returns
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, wanted, self._set)
        except pynvml.NVMLError:
            del self._uuids[_address(handle)]
            raise

    @doing("waiting for events")
    def wait(self, seconds: float) -> Xid | None:
        """Return the next XID, or None when none came in time."""
        milliseconds = int(seconds * 1000)
        event = or_none((TIMEOUT,), pynvml.nvmlEventSetWait_v2, self._set, milliseconds)
        if event is None:
            return None
        gi, ci = instance(event.gpuInstanceId), instance(event.computeInstanceId)
        uuid = self._uuids.get(_address(event.device))  # a GPU that is lost can't be asked any more
        if uuid is None:
            uuid = ask_text(pynvml.nvmlDeviceGetUUID, event.device)
        return Xid(uuid, int(event.eventData), gi, ci)

    def close(self) -> None:
        """Give the event set back."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(self._set)


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


class Ears:
    """Hears of XIDs for as long as NVML is open; ``put`` is called with each, in a thread of its own.

    A wait that goes on for ``longest`` seconds more than it was asked to is a fault.
    GPUs are added as they are found. Where events fail, or a GPU comes back, there is another event
    set: NVML says that one may be in an undefined state then.
    """

    def __init__(self, put: Callable[[Xid], None], longest: float) -> None:
        self._put, self._longest = put, longest
        self._now: _Listener | None = None
        self._before: list[_Listener] = []
        self._failed: set[str] = set()  # GPUs whose events can't be had
        self._quiet = False  # that there are none was said

    def begin(self) -> None:
        """Have an event set to which GPUs can be added, before they are looked at."""
        now = self._now
        if now is not None and (now.ended or now.stale):
            self._quiet = now.ended
            self._before.append(now)
            self._now = None
        if self._now is None:
            try:
                self._now = _Listener(self._put, self._quiet)
            except NvmlError as error:
                if not self._quiet:
                    logs.warning("no events from the GPUs, trying again", cause=error)
                self._quiet = True

    def add(self, gpu_uuid: str, fit: bool) -> None:
        """Hear of a GPU too, if it can be used. One that can't is asked for again when it can."""
        now = self._now
        if now is None:
            return
        if not fit:
            self._failed.discard(gpu_uuid)
            now.gone.add(gpu_uuid)
        elif gpu_uuid in now.gone:
            now.stale = True
        elif gpu_uuid not in now.asked and gpu_uuid not in self._failed:
            self._failed |= now.add(gpu_uuid)

    def keep(self, gpu_uuids: Iterable[str]) -> None:
        """Listen, now that all were looked at; others than these are not there any more."""
        if self._now is not None:
            self._now.gone |= self._now.asked - set(gpu_uuids)
            self._now.begin()
        for one in self._before:
            one.stop()
        self._before = [one for one in self._before if one.is_alive()]

    def check(self) -> None:
        """NodeError: XIDs are not heard at present, and why."""
        now = self._now
        if now is None:
            raise NodeError("there is no event set")
        if now.silent > (limit := WAIT + self._longest):
            raise NodeError(f"NVML has not come back from a wait of a second for {limit:g} seconds")
        if now.ended or now.quiet:
            raise NodeError("waiting for events fails")
        if self._failed:
            raise NodeError(f"events of {', '.join(sorted(self._failed))} are not available")

    def close(self) -> bool:
        """Stop listening. Returns whether nobody waits any more, so that NVML may be closed."""
        self._before += [self._now] if self._now else []
        self._now = None
        self._failed.clear()
        for one in self._before:
            one.stop()
        for one in self._before:
            one.end(ENDS)
        self._before = [one for one in self._before if one.is_alive()]
        return not self._before


class _Listener:
    """Waits for the events of one set until it is stopped or NVML fails. ``quiet``: that it does is known."""

    def __init__(self, put: Callable[[Xid], None], quiet: bool) -> None:
        self.asked: set[str] = set()  # the GPUs whose events were asked for
        self.gone: set[str] = set()  # those of them that could not be used meanwhile
        self.stale = False  # another set is wanted
        self.quiet = quiet  # until a wait succeeds
        self.ended = False  # it listened, and does not any more
        self._put = put
        self._stopping = False
        self._waits_since = 0.0
        self._events = XidWatch()
        self._thread = threading.Thread(target=self._run, name="xids", daemon=True)

    @property
    def silent(self) -> float:
        """How many seconds the wait goes on."""
        return time.monotonic() - self._waits_since if self.is_alive() else 0.0

    def is_alive(self) -> bool:
        """Tell whether somebody waits for events."""
        return self._thread.is_alive()

    def add(self, gpu_uuid: str) -> set[str]:
        """Ask for the events of a GPU. Returns it where they can't be had."""
        self.asked.add(gpu_uuid)
        try:
            self._events.add(gpu_uuid)
        except NvmlError as error:
            if error.code != NOT_SUPPORTED:
                logs.warning("events of a GPU are not available", gpu=gpu_uuid, cause=error)
                self.stale |= error.code == UNKNOWN_ERROR
                return {gpu_uuid}
        return set()

    def begin(self) -> None:
        """Wait for events, if there can be any."""
        if self._thread.ident is not None:
            return
        if self._events.hears:
            self._waits_since = time.monotonic()
            self._thread.start()
        else:
            self.quiet = False  # no wait will fail or succeed

    def stop(self) -> None:
        """Let it end by itself."""
        self._stopping = True
        if self._thread.ident is None:
            self._events.close()

    def end(self, seconds: float) -> None:
        """Wait for its end."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while self._listen():
                pass
        finally:
            self._events.close()
            self.ended = True

    def _listen(self) -> bool:
        """Wait for events until it is stopped or NVML fails. Returns whether to go on with another event set."""
        begun = time.monotonic()
        try:
            while not self._stopping:
                self._waits_since = time.monotonic()
                xid = self._events.wait(WAIT)
                self.quiet = False  # what fails from now on is news
                if xid is not None:
                    self._put(xid)
        except NvmlError as error:
            if not self._stopping and not self.quiet:
                logs.warning("waiting for events failed, trying again", cause=error)
            self.quiet = True
            lasted = time.monotonic() - begun >= LASTED  # else it is tried again at the next look
            return lasted and not self._stopping and self._renew()
        return False

    def _renew(self) -> bool:
        """Hear of those GPUs that can be heard of with another event set, at once.

        A wait fails for all where one GPU falls off the bus, and those beside it have XIDs in just that second.
        """
        try:
            events = XidWatch()
        except NvmlError:
            return False
        for uuid in sorted(self.asked - self.gone):
            try:
                events.add(uuid)
            except NvmlError:
                self.gone.add(uuid)
        self._events.close()
        self._events = events
        return events.hears
