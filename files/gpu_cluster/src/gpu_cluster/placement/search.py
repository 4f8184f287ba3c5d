# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The search for devices: the first that fit, with a way back, as Kubernetes' versions do it. Pure.

The order of checks is that of its allocator (structured/internal/incubating), since before the version that mends
LEAKS what a refused device leaves behind depends on it: counters of a device that a taint or a constraint keeps away,
and those of a share that is given back, stay consumed for the rest of the search. Counters are kept by the name of
the pool alone (POOL_NAMES), and distinctAttribute sees the last device of a request (LAST_DISTINCT).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpu_plugin._shared._base.dra.versions import LEAKS, RECOMMENDED, Version
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.model.quantity import Number

from . import claims as reading
from .claims import Claim, Refused, Request
from .devices import Amounts, Counters, Device, Devices, Pool, Use, left
from .selectors import CelError, Selector

MOST_STEPS: Final = 50_000  # where Kubernetes goes by time: it gives a node up after 10 seconds
MOST_DEVICES: Final = 32  # that a claim can have (resource.k8s.io/v1 AllocationResultsMaxSize)
_DONE, _NO, _EXCEEDED = "all devices are chosen", "another device may do", "too many devices"
Json = Mapping[str, Any]


class Given(NamedTuple):
    """A device that a request of a claim gets, by its index on the node, and what it takes of a shared one."""

    claim: int
    request: str
    device: int
    consumed: Amounts = ()


class Candidate(NamedTuple):
    """A device that a request's selectors match, or can't be evaluated for, and what it would take of it."""

    device: int
    demand: Amounts | None
    error: str = ""

    def short(self, device: Device, *used: Mapping[str, Number]) -> Iterator[str]:
        """Yield the capacities of which a device has not enough left."""
        for name, amount in self.demand or ():
            if amount > device.capacities[name].value - sum(of.get(name, 0) for of in used):
                yield name


class Candidates:
    """The candidates of requests on nodes, each found once; ``broken`` is a pool for which none gives all devices."""

    def __init__(self, classes: Mapping[str, Json], broken: Pool | None = None) -> None:
        self._classes, self.broken = classes, broken
        self._known: dict[tuple[Devices, Request], tuple[Candidate, ...]] = {}
        self._selected: dict[Hashable, tuple[tuple[int, str], ...]] = {}
        self._demands: dict[tuple[Request, int], Amounts | None] = {}

    def of(self, devices: Devices, request: Request) -> tuple[Candidate, ...]:
        """Return the candidates of a request in the order in which they are tried. Refused: there is no such class."""
        if (devices, request) not in self._known:
            self._known[devices, request] = tuple(
                Candidate(at, None if error else self._demand(request, devices.row[at]), error)
                for at, error in self.selected(devices, request.device_class, request.selectors)
            )
        return self._known[devices, request]

    def selected(
        self, devices: Devices, name: str, own: tuple[Selector, ...] = ()
    ) -> tuple[tuple[int, str], ...]:
        """Return the devices of a class that selectors match too, and why one of them can't be evaluated for one."""
        key = (devices, name, own)
        if key not in self._selected:
            if own:
                some, by = self.selected(devices, name), own
            else:
                usable = (at for at, pool in enumerate(devices.pool_of) if not pool.problem)
                some, by = tuple((at, "") for at in usable), self._class(name)
            self._selected[key] = tuple(_matching(devices, some, by))
        return self._selected[key]

    def _class(self, name: str) -> tuple[Selector, ...]:
        if name not in self._classes:
            raise Refused(f"the DeviceClass {name} does not exist")
        try:
            return reading.selectors(self._classes[name].get("spec") or {}, f"DeviceClass {name}")
        except NodeError as error:
            raise Refused(str(error)) from error

    def _demand(self, request: Request, device: Device) -> Amounts | None:
        """Return what a request takes of each capacity of a device, or None where it can never be met."""
        key = (request, id(device.capacities))
        if key not in self._demands:
            asked, have = request.capacity, device.capacities
            taken = [(name, one.taken(asked.get(name))) for name, one in have.items()]
            can = tuple((name, amount) for name, amount in taken if amount is not None)
            all_can = len(can) == len(taken) and asked.keys() <= have.keys()
            self._demands[key] = can if all_can else None
        return self._demands[key]


def _matching(
    devices: Devices, some: Iterable[tuple[int, str]], selectors: Sequence[Selector]
) -> Iterator[tuple[int, str]]:
    for index, error in some:
        device = devices.row[index]
        try:
            if error or all(one.matches(device.seen) for one in selectors):
                yield index, error
        except CelError as wrong:
            yield index, f"a selector can't be evaluated for {device.name}: {wrong}"


class _Constraint:
    """A constraint over the devices of a claim, while they are being chosen."""

    def __init__(self, raw: Json) -> None:
        self._attribute = str(raw.get("matchAttribute") or raw.get("distinctAttribute"))
        self._distinct = not raw.get("matchAttribute")
        self._requests = {str(one) for one in raw.get("requests") or ()}
        self._values: dict[str, Json] = {}
        self._number = 0

    def _concerns(self, request: Request) -> bool:
        return not self._requests or bool(self._requests & {_top(request), request.full_name})

    def add(self, request: Request, device: Device) -> bool:
        """Add a device where that is allowed, and return whether it was."""
        if not self._concerns(request):
            return True
        value = device.attributes.get(self._attribute)
        others = self._values.values() if self._number else ()
        if value is None or any((value == one) is self._distinct for one in others):
            return False
        self._values[_top(request) if self._distinct else ""] = value
        self._number += 1
        return True

    def remove(self, request: Request) -> None:
        """Take a device that was added out again."""
        if self._concerns(request):
            if self._distinct:
                self._values.pop(_top(request), None)
            self._number -= 1


def _top(request: Request) -> str:
    return request.parent or request.name


class _Option(NamedTuple):
    """One way to satisfy a request: so many of the candidates, or each of them (``all``)."""

    request: Request
    candidates: tuple[Candidate, ...]
    number: int
    all: bool


class _Taken(NamedTuple):
    """A device that is chosen, whether counters were charged, and whether others of these claims had shares of it."""

    given: Given
    charged: bool
    shared: bool


class _Search:
    def __init__(
        self,
        claims: Sequence[Claim],
        devices: Devices,
        use: Use,
        candidates: Candidates,
        leaks: bool,
    ) -> None:
        self._devices = devices
        self._use = use
        self._leaks = leaks
        self._steps = 0
        self._left: dict[str, Counters] = {}
        self._spent: dict[str, Counters] = {}
        self._constraints = [[_Constraint(one) for one in claim.constraints] for claim in claims]
        self._whole: set[int] = set()
        self._sharing: dict[int, dict[str, Number]] = {}
        self.taken: list[list[_Taken]] = [[] for _claim in claims]
        self._options = [
            [[self._option(one, candidates) for one in request] for request in claim.requests]
            for claim in claims
        ]
        for claim, rows in zip(claims, self._options, strict=True):
            least = sum(min(one.number for one in row) for row in rows)
            if least > MOST_DEVICES:
                raise Refused(f"claim {claim.name}: {least} devices are more than {MOST_DEVICES}")

    def _option(self, request: Request, candidates: Candidates) -> _Option:
        found = candidates.of(self._devices, request)
        if request.count is not None:
            return _Option(request, found, request.count, False)
        pool = next((one for one in self._devices.pools if one.problem), candidates.broken)
        if pool:
            why = pool.problem or pool.elsewhere
            raise Refused(f"all devices are requested, and pool {pool.name} can't be used: {why}")
        if wrong := next((one.error for one in found if one.error), ""):
            raise Refused(wrong)
        found = tuple(one for one in found if self._has_room(one))
        return _Option(request, found, len(found), True)

    def request(self, claim: int, request: int) -> str:
        """Go on with a request; an answer other than _DONE leaves nothing of it chosen."""
        if claim == len(self._options):
            return _DONE
        if request == len(self._options[claim]):
            answer = self.request(claim + 1, 0)
            return _NO if answer is _EXCEEDED else answer
        options = self._options[claim][request]
        answers = set()
        for option in options:
            answers.add(self._device(claim, request, option, 0, 0))
            if _DONE in answers:
                return _DONE
        return _NO if _NO in answers else _EXCEEDED

    def _device(self, claim: int, request: int, option: _Option, chosen: int, start: int) -> str:
        """Choose the next device of a request; ``start`` is the first candidate that is tried."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            why = f"the search takes more than {MOST_STEPS} steps; Kubernetes stops after 10 s"
            raise Refused(why)
        if option.all and not option.number:
            return _NO
        if chosen >= option.number:
            return self.request(claim, request + 1)
        if len(self.taken[claim]) + option.number - chosen > MOST_DEVICES:
            return _EXCEEDED
        places = (chosen,) if option.all else range(start, len(option.candidates))
        for place in places:
            if not self._take(claim, option, option.candidates[place]):
                continue
            answer = self._device(claim, request, option, chosen + 1, place + 1)
            if answer is not _DONE:
                self._undo(claim, option.request)
            if answer is not _NO:
                return answer
        return _NO

    def _has_room(self, one: Candidate) -> bool:
        used = self._use.capacity.get(one.device, {}), self._sharing.get(one.device, {})
        return one.demand is not None and not any(one.short(self._devices.row[one.device], *used))

    def _take(self, claim: int, option: _Option, one: Candidate) -> bool:
        """Choose a device, and return whether it can be had."""
        index, request, device = one.device, option.request, self._devices.row[one.device]
        if index in self._use.busy or index in self._whole:
            return False
        if one.error:
            raise Refused(one.error)
        if not (option.all or self._has_room(one)):
            return False
        shared = index in self._sharing
        charged = bool(device.consumes) and not (
            device.multiple and (shared or index in self._use.capacity)
        )
        if charged and not self._charge(index):
            return False
        added = not request.barred(device) and self._add(claim, option, device)
        if not added or not self._has_room(one):  # two requests for all may mean the same device
            if added and not self._leaks:
                self._release(claim, request)
            if charged and not self._leaks:
                self._refund(index)
            return False
        consumed = (one.demand or ()) if device.multiple else ()
        if device.multiple:
            self._share(index, consumed, 1)
        else:
            self._whole.add(index)
        given = Given(claim, request.full_name, index, consumed)
        self.taken[claim].append(_Taken(given, charged, shared))
        return True

    def _undo(self, claim: int, request: Request) -> None:
        """Take the last device of a claim back."""
        (_claim, _name, index, consumed), charged, shared = self.taken[claim].pop()
        self._release(claim, request)
        multiple = self._devices.row[index].multiple
        if charged and not (multiple and self._leaks):
            self._refund(index)
        if not multiple:
            self._whole.remove(index)
        elif consumed or not self._leaks:
            self._share(index, consumed, -1)
            if not (any(self._sharing[index].values()) if self._leaks else shared):
                del self._sharing[index]

    def _add(self, claim: int, option: _Option, device: Device) -> bool:
        for number, constraint in enumerate(self._constraints[claim]):
            if constraint.add(option.request, device):
                continue
            if option.all:
                why = "a constraint keeps it from having all devices"
                raise Refused(f"request {option.request.full_name}: {why}")
            for other in self._constraints[claim][:number]:
                other.remove(option.request)
            return False
        return True

    def _release(self, claim: int, request: Request) -> None:
        for constraint in self._constraints[claim]:
            constraint.remove(request)

    def _share(self, device: int, consumed: Amounts, sign: int) -> None:
        amounts = self._sharing.setdefault(device, {})
        for name, amount in consumed:
            amounts[name] = amounts.get(name, 0) + sign * amount

    def _charge(self, index: int) -> bool:
        """Consume a device's counters. Returns False where the pool has not enough: nothing is consumed then."""
        pool, consumes = self._devices.pool_of[index], self._devices.row[index].consumes
        if pool.name not in self._left:
            self._left[pool.name] = left(pool, self._devices, self._use)
        have, spent = self._left[pool.name], self._spent.setdefault(pool.name, {})
        for name, amount in consumes:
            if name in have and spent.get(name, 0) + amount > have[name]:
                return False
        if any(amount < 0 for amount in have.values()):  # Kubernetes gives nothing of the pool then
            return False
        for name, amount in consumes:
            spent[name] = spent.get(name, 0) + amount
        return True

    def _refund(self, index: int) -> None:
        for name, amount in self._devices.row[index].consumes:
            self._spent[self._devices.pool_of[index].name][name] -= amount


def search(
    claims: Sequence[Claim],
    devices: Devices,
    use: Use,
    candidates: Candidates,
    version: Version = RECOMMENDED,
) -> tuple[Given, ...] | None:
    """Return what a version gives to the claims of a pod on a node, or None. Refused: no node is looked at any more."""
    try:
        found = _Search(claims, devices, use, candidates, LEAKS.of(version))
        done = found.request(0, 0) is _DONE
    except RecursionError:
        raise Refused("the claims of a pod ask for more devices than are followed here") from None
    return tuple(one.given for row in found.taken for one in row) if done else None
