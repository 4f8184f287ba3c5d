# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How the devices are, for the kubelet, which shows it in the status of pods."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .._shared._base.dra.checkpoint import Device
from .._shared._base.text.shown import cut
from ..model.inventory import GpuView, Inventory
from .prepare.plan import NAME

AGAIN: Final = 10.0  # seconds; a kubelet that hears nothing for 30 takes all for unknown
LONGEST: Final = 1000  # characters of a message, of which the kubelet takes 1024
MOST_STREAMS: Final = 4  # each holds a worker for as long as it is open; the kubelet has one


@dataclass(frozen=True)
class DeviceHealth:
    """A device's health: None where it is not known; a message that says more."""

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
    every = dict.fromkeys(
        [*((pool, name) for name in names), *((device.pool, device.device) for device in held)]
    )
    return tuple(
        _device_health(of, name, views, uuids.get(name, ""), judged.absent) for of, name in every
    )


def _device_health(
    pool: str, name: str, views: Mapping[int, GpuView], mig: str, absent: str
) -> DeviceHealth:
    match = NAME.fullmatch(name)
    view = views.get(int(match["minor"])) if match else None
    if absent or view is None:
        return DeviceHealth(pool, name, None, cut(absent or "no GPU has that number", LONGEST))
    problem = view.problem or view.mig_problems.get(mig)
    if not problem and match and match["id"] is None:
        problem = next(iter(view.mig_problems.values()), None)
    return DeviceHealth(pool, name, problem is None, cut(str(problem), LONGEST) if problem else "")


class HealthNews:
    """What was found last, and who waits for it."""

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
        """Let those who wait look whether they still should."""
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
        """Yield the health at once, when it changes, and every ``again`` seconds, while somebody listens.

        The oldest stream makes way where there are too many.
        """
        me = object()
        sent: tuple[DeviceHealth, ...] | None = None
        with self._changed:
            self._streams = [*self._streams[-MOST_STREAMS + 1 :], me]
            self._changed.notify_all()
        while self._wait(me, active, sent, again):
            sent = self._devices
            yield sent

    def _wait(
        self,
        stream: object,
        active: Callable[[], bool],
        sent: tuple[DeviceHealth, ...] | None,
        again: float,
    ) -> bool:
        """Wait until there is something to send. Returns whether the stream goes on."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._over(stream, active) or self._devices != sent,
                0 if sent is None else again,
            )
            return not self._over(stream, active)

    def _over(self, stream: object, active: Callable[[], bool]) -> bool:
        return self._closing or stream not in self._streams or not active()
