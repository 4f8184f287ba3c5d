# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Why a node can't give devices to claims, in the words of who asked for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from gpu_plugin._shared._base.dra.names import DRIVER, GPU, MIG, SHARE
from gpu_plugin._shared._base.dra.versions import LEAKS, RECOMMENDED, Version
from gpu_plugin._shared._base.dra.versions import text as shown
from gpu_plugin.model.quantity import Number, text

from .claims import Claim, Refused, Request, tainted
from .devices import Device, Devices, Use, left
from .search import Candidate, Candidates, search

_HELD: Final = {GPU: "as whole GPUs", MIG: "as MIG devices", SHARE: "by shares"}
_TOGETHER: Final = "each of its requests could be met, but not all together"
_FORGOTTEN: Final = (
    f"the devices would do, but before Kubernetes {shown(LEAKS.mended or RECOMMENDED)} {LEAKS}; upgrade, or have one"
    " request in a claim, whole GPUs before shares, and firstAvailable with selectors, not matchAttribute"
)


class Reason(NamedTuple):
    """What is in the way on one node; ``most`` is the most that one of its devices has left of a capacity."""

    text: str
    capacity: str = ""
    most: Number = 0
    devices: int = 0


def reasons(
    claims: Sequence[Claim], devices: Devices, use: Use, candidates: Candidates, version: Version
) -> tuple[Reason, ...]:
    """Return what is in the way of each request that can't be met by itself, or of all together."""
    try:
        alone: dict[Reason, None] = {}
        for request in (one for claim in claims for one in claim.requests):
            found = [next(_stages(one, devices, use, candidates), None) for one in request]
            if None not in found:
                alone |= {one: None for one in found if one}
        possible = LEAKS.of(version) and not alone and search(claims, devices, use, candidates)
        return tuple(alone) or (Reason(_FORGOTTEN if possible else _TOGETHER),)
    except Refused as error:
        return (Reason(str(error)),)


def merged(found: Iterable[Reason]) -> Iterator[tuple[str, int]]:
    """Yield the reasons of several nodes as text, equal ones once with the most of all, and how many nodes have it."""
    kept: dict[tuple[str, str], list[Reason]] = {}
    for one in found:
        kept.setdefault((one.text, one.capacity), []).append(one)
    for (said, capacity), same in sorted(kept.items(), key=lambda pair: -len(pair[1])):
        number = sum(one.devices for one in same)
        devices = f": {number} device{'' if number == 1 else 's'}" if number else ""
        most = f"{devices}, most free is {text(max(one.most for one in same))}"
        yield said + (most if capacity else ""), len(same)


def _stages(
    request: Request, devices: Devices, use: Use, candidates: Candidates
) -> Iterator[Reason]:
    """Yield what is in the way, as soon as too few devices are left."""
    of, wanted, row = request.device_class, request.count or 1, devices.row
    plural = f"{wanted} devices of {of} are requested, and"
    found = candidates.of(devices, request)
    if broken := next((one.error for one in found if one.error), ""):
        yield Reason(broken)
    if len(found) < wanted:
        problem = next((pool.problem for pool in devices.pools if pool.problem), "")
        selectors = " && ".join(one.expression for one in request.selectors)
        matching = f" matches {selectors}" if candidates.selected(devices, of) else ""
        none = f"{plural} it has {len(found)} such" if found else f"no device of {of}{matching}"
        yield Reason(f"its ResourceSlices can't be used: {problem}" if problem else none)
    able = [one for one in found if one.demand is not None and not any(one.short(row[one.device]))]
    if len(able) < wanted:
        yield Reason(_too_much(request, [row[one.device] for one in found]))
    clean = [one for one in able if not request.barred(row[one.device])]
    if len(clean) < wanted:
        taints = {tainted(one) for each in able if (one := request.barred(row[each.device]))}
        yield Reason(f"devices of {of} are tainted: {', '.join(sorted(taints))}")
    ours = [one for one in clean if not _in_use(one.device, devices, use)]
    if len(ours) < wanted:
        free = f"{plural} {len(ours)} is free, the others are" if ours else "its devices are"
        yield Reason(f"{free} in use{_holders(clean, devices, use)}")
    short = [set(one.short(row[one.device], use.capacity.get(one.device, {}))) for one in ours]
    if (roomy := short.count(set())) < wanted:
        yield _full(request, ours, short, roomy, devices, use)


def _too_much(request: Request, found: Sequence[Device]) -> str:
    for name, amount in request.capacity.items():
        some = [one.capacities[name] for one in found if name in one.capacities]
        if not some:
            return f"no device of {request.device_class} has the capacity {name}"
        most = max(one.value if one.most is None else min(one.value, one.most) for one in some)
        if amount > most:
            what = f"{name} {text(amount)} is more than a device of {request.device_class} can give"
            return f"{what}, which is {text(most)}"
    return f"{_words(request)} is more than one device of {request.device_class} has"


def _in_use(index: int, devices: Devices, use: Use) -> bool:
    """Return whether a device is in use as a whole, or something else has what it is made of."""
    device = devices.row[index]
    if index in use.busy or not device.consumes or (device.multiple and index in use.capacity):
        return index in use.busy
    counters = left(devices.pool_of[index], devices, use)
    return any(counters.get(name, amount) < amount for name, amount in device.consumes)


def _holders(clean: Sequence[Candidate], devices: Devices, use: Use) -> str:
    """Return what has the counters of devices, in words."""
    sets = {of for one in clean for (of, _name), _amount in devices.row[one.device].consumes}
    holding = [devices.row[index] for index in use.drawing()]
    kinds = {
        one.attributes.get(f"{DRIVER}/type", {}).get("string", "")
        for one in holding
        if sets & {of for (of, _name), _amount in one.consumes}
    }
    held = sorted({_HELD.get(one, "by others") for one in kinds})
    return f" {' and '.join(held)}" if held else ""


def _full(
    request: Request,
    ours: Sequence[Candidate],
    short: Sequence[set[str]],
    roomy: int,
    devices: Devices,
    use: Use,
) -> Reason:
    prefix = f"{request.count} devices at once with " if (request.count or 1) > 1 else ""
    if roomy:
        return Reason(f"{prefix}{_words(request)}, and only {roomy} has it free")
    for name in sorted(set.intersection(*short)):
        most = max(
            devices.row[one.device].capacities[name].value
            - use.capacity.get(one.device, {}).get(name, 0)
            for one in ours
        )
        amount = max(dict(one.demand or ())[name] for one in ours)
        return Reason(f"{prefix}{name} {text(amount)}", name, most, len(ours))
    return Reason(f"{prefix}{_words(request)} is free of no one device at once")


def _words(request: Request) -> str:
    named = [f"{name} {text(amount)}" for name, amount in request.capacity.items()]
    return " and ".join(named) or f"a device of {request.device_class}"
