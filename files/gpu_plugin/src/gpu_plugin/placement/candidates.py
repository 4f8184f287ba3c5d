# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which devices of a node a request can have at all, whatever is allocated. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .capacity import demand
from .cel import CelError, Selector
from .claims import Request
from .quantity import Number
from .values import Devices


class Refused(Exception):
    """Kubernetes gives up on a pod at once, whatever other nodes have: its claim can't be as it is."""


@dataclass(frozen=True)
class Candidate:
    """A device that a request's selectors match, or can't be evaluated for, and what it would take of it."""

    device: int
    demand: tuple[tuple[str, Number], ...] | None
    error: str = ""


class Candidates:
    """The candidates of requests on nodes, each found once."""

    def __init__(self, classes: Mapping[str, tuple[Selector, ...]]) -> None:
        self._classes = classes
        self._known: dict[tuple[Devices, Request], tuple[Candidate, ...]] = {}

    def check(self, request: Request) -> None:
        """Refused: the request's class does not exist."""
        if request.device_class not in self._classes:
            raise Refused(f"the DeviceClass {request.device_class} does not exist")

    def of(self, devices: Devices, request: Request) -> tuple[Candidate, ...]:
        """Return the candidates of a request in the order in which they are tried."""
        key = (devices, request)
        if key not in self._known:
            self._known[key] = tuple(self._found(devices, request))
        return self._known[key]

    def _found(self, devices: Devices, request: Request) -> Iterator[Candidate]:
        selectors = (*self._classes[request.device_class], *request.selectors)
        for index in devices.usable:
            device = devices.row[index]
            try:
                if all(one.matches(device) for one in selectors):
                    yield Candidate(index, demand(request.capacity, device))
            except CelError as error:
                yield Candidate(
                    index, None, f"a selector can't be evaluated for {device.name}: {error}"
                )
