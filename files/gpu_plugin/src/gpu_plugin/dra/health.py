# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The health of devices for the kubelet, which shows it in the status of pods."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from .._shared._base.dra.checkpoint import Device
from .._shared._base.text.shown import cut
from ..model.inventory import Inventory
from .prepare.plan import NAME

AGAIN: Final = 10.0  # seconds; a kubelet that hears nothing for 30 takes all for unknown
LONGEST: Final = 1000  # characters of a message, of which the kubelet takes 1024
MOST_STREAMS: Final = 4  # each holds a worker for as long as it is open; the kubelet has one


@dataclass(frozen=True)
class DeviceHealth:
    """A device's health, None if it is not known, with a message."""

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


def health(
    pool: str, names: Iterable[str], held: Iterable[Device], judged: Inventory
) -> tuple[DeviceHealth, ...]:
    """Return the health of the devices published in a pool, and of those that claims hold. Pure.

    ``judged`` is the inventory with what makes GPUs unhealthy.
    """
    views = {view.gpu.minor: view for view in judged.gpus}
    uuids = {device.device: device.instance.uuid for device in held if device.instance}
    result: dict[tuple[str, str], DeviceHealth] = {}
    for place in (*((pool, name) for name in names), *((item.pool, item.device) for item in held)):
        match = NAME.fullmatch(place[1])
        view = views.get(int(match["minor"])) if match else None
        if judged.absent or match is None or view is None:
            message = judged.absent or "no GPU has that number"
            result[place] = DeviceHealth(*place, None, cut(message, LONGEST))
            continue
        problem = view.problem or view.mig_problems.get(uuids.get(place[1], ""))
        if not problem and match["id"] is None:
            problem = next(iter(view.mig_problems.values()), None)
        message = cut(str(problem), LONGEST) if problem else ""
        result[place] = DeviceHealth(*place, problem is None, message)
    return tuple(result.values())


class HealthNews:
    """The latest health of the devices, for the streams that wait for it."""

    def __init__(self) -> None:
        self._devices: tuple[DeviceHealth, ...] = ()
        self._changed = threading.Condition()
        self._closing = False
        self._streams: list[object] = []

    def put(self, devices: tuple[DeviceHealth, ...]) -> None:
        """Publish the health of these devices from now on."""
        with self._changed:
            if devices != self._devices:
                self._devices = devices
                self._changed.notify_all()

    def wake(self) -> None:
        """Let the streams check whether they still have a reader."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End all streams."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def follow(
        self, active: Callable[[], bool], again: float = AGAIN
    ) -> Iterator[tuple[DeviceHealth, ...]]:
        """Yield the health at once, when it changes, and every ``again`` seconds, until the reader is gone.

        The oldest stream ends where there are too many.
        """
        stream = object()
        sent: tuple[DeviceHealth, ...] | None = None

        def is_over() -> bool:
            return self._closing or stream not in self._streams or not active()

        def is_due() -> bool:
            return is_over() or self._devices != sent

        with self._changed:
            self._streams = [*self._streams[-MOST_STREAMS + 1 :], stream]
            self._changed.notify_all()
        while True:
            with self._changed:
                self._changed.wait_for(is_due, 0 if sent is None else again)
                if is_over():
                    return
                sent = self._devices
            yield sent
