# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Why a node can't give devices to claims, in the words of who asked for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_plugin._shared._base.dra.names import DRIVER, GPU, MIG, SHARE
from gpu_plugin._shared._base.dra.versions import LEAKS, RECOMMENDED, Version
from gpu_plugin._shared._base.dra.versions import text as shown
from gpu_plugin.cluster.quantity import Number, text

from .candidates import Candidate, Candidates
from .capacity import free as free_of
from .claims import Claim, Request
from .counters import taken
from .search import search
from .values import Capacity, Device, Devices, Use

_HELD: Final = {GPU: "as whole GPUs", MIG: "as MIG devices", SHARE: "by shares"}
TOGETHER: Final = "each of its requests could be met, but not all together"
FORGOTTEN: Final = (
    f"the devices would do, but before Kubernetes {shown(LEAKS.mended or RECOMMENDED)} {LEAKS}; upgrade, or have one"
    " request in a claim, whole GPUs before shares, and firstAvailable with selectors, not matchAttribute"
)


@dataclass(frozen=True)
class Reason:
    """What is in the way on one node; ``most`` is the most that a device has left of a capacity."""

    text: str
    capacity: str = ""
    most: Number = 0
    devices: int = 0


@dataclass(frozen=True)
class _Node:
    devices: Devices
    use: Use
    candidates: Candidates


def reasons(
    claims: Sequence[Claim], devices: Devices, use: Use, candidates: Candidates, version: Version
) -> tuple[Reason, ...]:
    """Return what is in the way of each request that can't be met by itself, or of all together."""
    node = _Node(devices, use, candidates)
    alone = [
        one for claim in claims for request in claim.requests for one in _request(request, node)
    ]
    if alone:
        return tuple(dict.fromkeys(alone))
    possible = LEAKS.of(version) and search(claims, devices, use, candidates) is not None
    return (Reason(FORGOTTEN if possible else TOGETHER),)


def merged(found: Iterable[Reason]) -> list[tuple[Reason, int]]:
    """Return the reasons of several nodes, equal ones as one with the most of all, and how many nodes have it."""
    kept: dict[tuple[str, str], tuple[Reason, int]] = {}
    for one in found:
        key = (one.text, one.capacity)
        before, nodes = kept.get(key, (one, 0))
        most = Reason(
            one.text, one.capacity, max(before.most, one.most), before.devices + one.devices
        )
        kept[key] = (most if nodes else one, nodes + 1)
    return sorted(kept.values(), key=lambda pair: -pair[1])


def sentence(reason: Reason) -> str:
    """Return a reason as text."""
    if not reason.capacity:
        return reason.text
    if not reason.devices:
        return f"{reason.text}, most free is {text(reason.most)}"
    devices = "1 device" if reason.devices == 1 else f"{reason.devices} devices"
    return f"{reason.text}: {devices}, most free is {text(reason.most)}"


def _request(alternatives: Sequence[Request], node: _Node) -> list[Reason]:
    found = []
    for one in alternatives:
        node.candidates.check(one)
        reason = next(_stages(one, node), None)
        if reason is None:
            return []
        found.append(reason)
    return found


def _stages(request: Request, node: _Node) -> Iterator[Reason]:
    """Yield what is in the way, as soon as too few devices are left."""
    wanted = request.count or 1
    found = list(node.candidates.of(node.devices, request))
    if broken := next((one.error for one in found if one.error), ""):
        yield Reason(broken)
    if len(found) < wanted:
        yield Reason(_missing(request, len(found), wanted, node))
    able = [one for one in found if one.demand is not None and _could(one, node)]
    if len(able) < wanted:
        yield _too_much(request, [node.devices.row[one.device] for one in found])
    clean = [one for one in able if request.barred(node.devices.row[one.device]) is None]
    if len(clean) < wanted:
        yield Reason(_tainted(request, able, node))
    ours = [one for one in clean if not taken(one.device, node.devices, node.use)]
    if len(ours) < wanted:
        yield Reason(_in_use(request, clean, len(ours), node))
    roomy = [one for one in ours if not _short(one, node)]
    if len(roomy) < wanted:
        yield _full(request, ours, len(roomy), node)


def _missing(request: Request, found: int, wanted: int, node: _Node) -> str:
    if problem := next((pool.problem for pool in node.devices.pools if pool.problem), ""):
        return f"its ResourceSlices can't be used: {problem}"
    if found:
        return f"{wanted} devices of {request.device_class} are requested, and it has {found} such"
    of_class = Request("", "", request.device_class, 1)
    if not node.candidates.of(node.devices, of_class):
        return f"no device of {request.device_class}"
    selectors = " && ".join(one.expression for one in request.selectors)
    return f"no device of {request.device_class} matches {selectors}"


def _could(one: Candidate, node: _Node) -> bool:
    """Return whether a device has enough as long as nobody uses it."""
    device = node.devices.row[one.device]
    return all(amount <= free_of(device, name) for name, amount in one.demand or ())


def _too_much(request: Request, devices: Sequence[Device]) -> Reason:
    for name, amount in request.capacity.items():
        limits = [_most(one.capacities[name]) for one in devices if name in one.capacities]
        if not limits:
            return Reason(f"no device of {request.device_class} has the capacity {name}")
        if amount > max(limits):
            what = f"{name} {text(amount)} is more than a device of {request.device_class} can give"
            return Reason(f"{what}, which is {text(max(limits))}")
    return Reason(f"{_words(request)} is more than one device of {request.device_class} has")


def _most(capacity: Capacity) -> Number:
    return capacity.value if capacity.maximum is None else min(capacity.value, capacity.maximum)


def _tainted(request: Request, able: Sequence[Candidate], node: _Node) -> str:
    taints = {
        f"{taint.key}={taint.value}:{taint.effect}"
        if taint.value
        else f"{taint.key}:{taint.effect}"
        for one in able
        if (taint := request.barred(node.devices.row[one.device]))
    }
    return f"devices of {request.device_class} are tainted: {', '.join(sorted(taints))}"


def _in_use(request: Request, clean: Sequence[Candidate], free: int, node: _Node) -> str:
    row = node.devices.row
    sets = {of for one in clean for of, _name, _amount in row[one.device].consumes}
    holders = [
        row[index] for index in node.use.drawing if sets & {one[0] for one in row[index].consumes}
    ]
    held = sorted({_HELD.get(str(one.attribute(f"{DRIVER}/type")), "by others") for one in holders})
    by = f" {' and '.join(held)}" if held else ""
    wanted = (
        f"{request.count} devices of {request.device_class} are requested, and " if free else ""
    )
    return f"{wanted}{f'{free} is free, the others are' if free else 'its devices are'} in use{by}"


def _used(one: Candidate, node: _Node) -> Mapping[str, Number]:
    return node.use.capacity.get(one.device, {})


def _short(one: Candidate, node: _Node) -> list[str]:
    """Return the capacities of which a device has not enough left."""
    device, used = node.devices.row[one.device], _used(one, node)
    return [name for name, amount in one.demand or () if amount > free_of(device, name, used)]


def _full(request: Request, ours: Sequence[Candidate], roomy: int, node: _Node) -> Reason:
    short = [set(_short(one, node)) for one in ours]
    count = request.count or 1
    prefix = f"{count} devices at once with " if count > 1 else ""
    for name in sorted(set.intersection(*short) if not roomy else set()):
        most = max(free_of(node.devices.row[one.device], name, _used(one, node)) for one in ours)
        amount = max(dict(one.demand or ())[name] for one in ours)
        return Reason(f"{prefix}{name} {text(amount)}", name, most, len(ours))
    if roomy:
        return Reason(f"{prefix}{_words(request)}, and only {roomy} has it free")
    return Reason(f"{prefix}{_words(request)} is free of no one device at once")


def _words(request: Request) -> str:
    named = [f"{name} {text(amount)}" for name, amount in request.capacity.items()]
    return " and ".join(named) or f"a device of {request.device_class}"
