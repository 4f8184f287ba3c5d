# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices of a node a request can have at all, whatever is allocated. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpu_plugin.cluster.quantity import Number

from .capacity import demand
from .cel import CelError, Selector
from .claims import Request
from .values import Capacity, Device, Devices, Pool


class Refused(Exception):
    """Kubernetes gives up on a pod at once, whatever other nodes have: its claim can't be as it is."""


@dataclass(frozen=True)
class Candidate:
    """A device that a request's selectors match, or can't be evaluated for, and what it would take of it."""

    device: int
    demand: tuple[tuple[str, Number], ...] | None
    error: str = ""


class Candidates:
    """The candidates of requests on nodes, each found once; ``broken`` is a pool for which none gives all devices."""

    def __init__(
        self, classes: Mapping[str, tuple[Selector, ...]], broken: Pool | None = None
    ) -> None:
        self._classes = classes
        self._broken = broken
        self._known: dict[tuple[Devices, Request], tuple[Candidate, ...]] = {}
        self._demands: dict[
            tuple[Request, int],
            tuple[Mapping[str, Capacity], tuple[tuple[str, Number], ...] | None],
        ] = {}
        self._selected: dict[tuple[object, ...], tuple[tuple[int, str], ...]] = {}

    def check(self, request: Request) -> None:
        """Refused: the request's class does not exist."""
        if request.device_class not in self._classes:
            raise Refused(f"the DeviceClass {request.device_class} does not exist")

    def check_all(self, devices: Devices) -> None:
        """Refused: all devices can't be had, as a pool of the node or of any other can't be used."""
        pool = next((one for one in devices.pools if one.problem), self._broken)
        if pool:
            why = pool.problem or pool.elsewhere
            raise Refused(f"all devices are requested, and pool {pool.name} can't be used: {why}")

    def of(self, devices: Devices, request: Request) -> tuple[Candidate, ...]:
        """Return the candidates of a request in the order in which they are tried."""
        key = (devices, request)
        if key not in self._known:
            self._known[key] = tuple(
                Candidate(
                    index, None if error else self._demand(request, devices.row[index]), error
                )
                for index, error in self.selected(devices, request)
            )
        return self._known[key]

    def _demand(self, request: Request, device: Device) -> tuple[tuple[str, Number], ...] | None:
        key = (request, id(device.capacities))
        known = self._demands.get(key)
        if known is None or known[0] is not device.capacities:
            known = self._demands[key] = (device.capacities, demand(request.capacity, device))
        return known[1]

    def selected(self, devices: Devices, request: Request) -> tuple[tuple[int, str], ...]:
        """Return the devices that a request's selectors match, and why they can't be evaluated for one."""
        key = (devices, request.device_class, request.selectors)
        if key not in self._selected:
            self._selected[key] = tuple(self._narrowed(devices, request))
        return self._selected[key]

    def _narrowed(self, devices: Devices, request: Request) -> Iterator[tuple[int, str]]:
        """Yield the devices of the class that the request's own selectors match as well."""
        if not request.selectors:
            yield from _matching(devices, devices.usable, self._classes[request.device_class])
            return
        for index, error in self.selected(devices, Request("", "", request.device_class, 1)):
            if error:
                yield index, error
            else:
                yield from _matching(devices, (index,), request.selectors)


def _matching(
    devices: Devices, indices: Iterable[int], selectors: tuple[Selector, ...]
) -> Iterator[tuple[int, str]]:
    for index in indices:
        device = devices.row[index]
        try:
            if all(one.matches(device) for one in selectors):
                yield index, ""
        except CelError as error:
            yield index, f"a selector can't be evaluated for {device.name}: {error}"
