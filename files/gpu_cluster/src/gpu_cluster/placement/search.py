# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The search for devices: the first that fit, with a way back, as Kubernetes' versions do it. Pure.

The order of checks is that of its allocator (structured/internal/incubating), since before the version that mends
LEAKS what a refused device leaves behind depends on it: counters of a device that a taint or a constraint keeps away,
and those of a share that is given back, stay consumed for the rest of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gpu_plugin._shared._base.dra.versions import LEAKS, RECOMMENDED, Version
from gpu_plugin.cluster.quantity import Number

from .candidates import Candidate, Candidates, Refused
from .capacity import fits
from .claims import MOST_DEVICES, Claim, Request
from .constraints import started
from .counters import Counters
from .values import Devices, Given, Use

MOST_STEPS: Final = 50_000  # where Kubernetes goes by time: it gives a node up after 10 seconds


class _Answer(Enum):
    DONE = "all devices are chosen"
    NO = "another device may do"
    EXCEEDED = "too many devices, whichever they are"


@dataclass(frozen=True)
class _Option:
    """One way to satisfy a request: so many of the candidates, or exactly these."""

    request: Request
    candidates: tuple[Candidate, ...]
    count: int
    all: tuple[Candidate, ...] | None


def search(
    claims: Sequence[Claim],
    devices: Devices,
    use: Use,
    candidates: Candidates,
    version: Version = RECOMMENDED,
) -> tuple[Given, ...] | None:
    """Return what a version gives to the claims of a pod on a node, or None. Refused: no node is looked at any more."""
    try:
        return _Search(claims, devices, use, candidates, leaks=LEAKS.of(version)).result()
    except RecursionError:
        raise Refused("the claims of a pod ask for more devices than are followed here") from None


class _Search:
    def __init__(
        self,
        claims: Sequence[Claim],
        devices: Devices,
        use: Use,
        candidates: Candidates,
        *,
        leaks: bool,
    ) -> None:
        self._devices = devices
        self._use = use
        self._leaks = leaks
        self._steps = 0
        self._counters = Counters(devices, use)
        self._constraints = [started(claim.constraints) for claim in claims]
        self._taking: dict[int, int] = {}  # devices that are not shared, with how often
        self._sharing: dict[int, dict[str, Number]] = {}
        self._given: list[list[Given]] = [[] for _claim in claims]
        self._options = [self._checked(claim, candidates) for claim in claims]

    def result(self) -> tuple[Given, ...] | None:
        if self._request(0, 0) is _Answer.DONE:
            return tuple(one for given in self._given for one in given)
        return None

    def _checked(self, claim: Claim, candidates: Candidates) -> list[list[_Option]]:
        options = []
        for request in claim.requests:
            for one in request:
                candidates.check(one)
            options.append([self._option(one, candidates) for one in request])
        least = sum(min(one.count for one in request) for request in options)
        if least > MOST_DEVICES:
            raise Refused(f"claim {claim.name}: {least} devices are more than {MOST_DEVICES}")
        return options

    def _option(self, request: Request, candidates: Candidates) -> _Option:
        found = candidates.of(self._devices, request)
        if request.count is not None:
            return _Option(request, found, request.count, None)
        candidates.check_all(self._devices)
        for one in found:
            if one.error:
                raise Refused(one.error)
        whole = tuple(one for one in found if self._has_room(one))
        return _Option(request, found, len(whole), whole)

    def _request(self, claim: int, request: int) -> _Answer:
        """Go on with a request; an answer other than DONE leaves nothing of it chosen."""
        if claim == len(self._options):
            return _Answer.DONE
        if request == len(self._options[claim]):
            answer = self._request(claim + 1, 0)
            return _Answer.NO if answer is _Answer.EXCEEDED else answer
        options = self._options[claim][request]
        if not options[0].request.parent:
            return self._device(claim, request, options[0], 0, 0)
        answers = set()
        for option in options:
            answer = self._device(claim, request, option, 0, 0)
            if answer is _Answer.DONE:
                return answer
            answers.add(answer)
        return _Answer.NO if _Answer.NO in answers else _Answer.EXCEEDED

    def _device(
        self, claim: int, request: int, option: _Option, chosen: int, start: int
    ) -> _Answer:
        """Choose the next device of a request; ``start`` is the first candidate that is tried."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise Refused(
                f"the search takes more than {MOST_STEPS} steps; Kubernetes stops after 10 s"
            )
        if option.all is not None and not option.all:
            return _Answer.NO
        if chosen >= option.count:
            return self._request(claim, request + 1)
        if len(self._given[claim]) + option.count - chosen > MOST_DEVICES:
            return _Answer.EXCEEDED
        if option.all is not None:
            undo = self._take(claim, option.request, option.all[chosen], must=True)
            return self._go_on(undo, claim, request, option, chosen, 0)
        for place in range(start, len(option.candidates)):
            if (undo := self._try(claim, option, option.candidates[place])) is None:
                continue
            answer = self._go_on(undo, claim, request, option, chosen, place + 1)
            if answer is not _Answer.NO:
                return answer
        return _Answer.NO

    def _go_on(
        self,
        undo: Callable[[], None] | None,
        claim: int,
        request: int,
        option: _Option,
        chosen: int,
        start: int,
    ) -> _Answer:
        if undo is None:
            return _Answer.NO
        answer = self._device(claim, request, option, chosen + 1, start)
        if answer is not _Answer.DONE:
            undo()
        return answer

    def _try(self, claim: int, option: _Option, one: Candidate) -> Callable[[], None] | None:
        if self._in_use(one.device):
            return None
        if one.error:
            raise Refused(one.error)
        return self._take(claim, option.request, one) if self._has_room(one) else None

    def _in_use(self, device: int) -> bool:
        return device in self._use.busy or bool(self._taking.get(device))

    def _has_room(self, one: Candidate) -> bool:
        if one.demand is None:
            return False
        used = self._use.capacity.get(one.device, {})
        return fits(
            one.demand, self._devices.row[one.device], used, self._sharing.get(one.device, {})
        )

    def _take(
        self, claim: int, request: Request, one: Candidate, *, must: bool = False
    ) -> Callable[[], None] | None:
        """Choose a device, and return what undoes that, or None where it can't be had."""
        if self._in_use(one.device):
            return None
        device = self._devices.row[one.device]
        charged = bool(device.consumes) and not (device.multiple and self._shared(one.device))
        if charged and not self._counters.charge(one.device):
            return None
        if request.barred(device) or not self._add(claim, request, one.device, must=must):
            self._give_back(one.device, charged=charged)
            return None
        if not self._has_room(one):  # of "all" devices two requests may have had the same in mind
            if not self._leaks:
                self._release(claim, request)
            self._give_back(one.device, charged=charged)
            return None
        consumed = (one.demand or ()) if device.multiple else ()
        shared = one.device in self._sharing
        if device.multiple:
            self._share(one.device, consumed, 1)
        else:
            self._taking[one.device] = self._taking.get(one.device, 0) + 1
        self._given[claim].append(Given(claim, request.full_name, one.device, consumed))
        return lambda: self._undo(
            claim, request, one.device, consumed, charged=charged, shared=shared
        )

    def _shared(self, device: int) -> bool:
        return device in self._use.capacity or device in self._sharing

    def _add(self, claim: int, request: Request, index: int, *, must: bool) -> bool:
        device = self._devices.row[index]
        for number, constraint in enumerate(self._constraints[claim]):
            if constraint.add(request, device):
                continue
            if must:
                raise Refused(
                    f"request {request.full_name}: a constraint keeps it from having all devices"
                )
            for other in self._constraints[claim][:number]:
                other.remove(request)
            return False
        return True

    def _share(self, device: int, consumed: tuple[tuple[str, Number], ...], sign: int) -> None:
        amounts = self._sharing.setdefault(device, {})
        for name, amount in consumed:
            amounts[name] = amounts.get(name, 0) + sign * amount

    def _release(self, claim: int, request: Request) -> None:
        for constraint in self._constraints[claim]:
            constraint.remove(request)

    def _undo(
        self,
        claim: int,
        request: Request,
        index: int,
        consumed: tuple[tuple[str, Number], ...],
        *,
        charged: bool,
        shared: bool,
    ) -> None:
        """Take a device back; ``shared`` tells whether others of these claims had a share of it before."""
        self._release(claim, request)
        self._given[claim].pop()
        if not self._devices.row[index].multiple:
            self._taking[index] -= 1
            if charged:
                self._counters.refund(index)
            return
        self._give_back(index, charged=charged)
        if consumed or not self._leaks:
            self._share(index, consumed, -1)
            if not (any(self._sharing[index].values()) if self._leaks else shared):
                del self._sharing[index]

    def _give_back(self, index: int, *, charged: bool) -> None:
        """Refund counters, unless Kubernetes forgets to."""
        if charged and not self._leaks:
            self._counters.refund(index)
