# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices that pods hold in another form than the one they are to be advertised in. Pure.

The kubelet counts by resource and id: a device that gets another of either is free for it, whoever has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .._shared._base.text.shown import counted
from .._shared._node.users.allocated import UNREPORTED, Allocation, Place, places
from .._shared._node.users.allocated import Devices as OfGpu
from ..model.inventory import Device, Devices, Inventory, Kind, Problem, Resources

WHOLE, TIME_SLICING, MPS = "whole", "timeSlicing", "mps"
WAITS: Final = "it waits for who holds it in another form: "
FORGOTTEN: Final = "it is given to nobody until who has it has ended: "
ASKS: Final = "it waits for the kubelet's answer whether a pod holds it in another form"


class Form(NamedTuple):
    """How a device of a GPU is advertised: by which resource, and whole or in how many shares of which kind."""

    gpu: str
    resource: str
    kind: str
    shares: int


@dataclass(frozen=True)
class Holders:
    """Who holds what: what pods were given, None where the kubelet did not tell yet.

    ``forms`` are those in which devices were advertised last, by UUID, and ``asked`` those for which the kubelet
    was asked: what it gave before these were published is among ``given``.
    """

    given: Sequence[Allocation] | None = ()
    forms: Mapping[str, Form] = field(default_factory=dict)
    asked: Mapping[str, Form] = field(default_factory=dict)


NOBODY: Final = Holders()


def forms(resources: Resources) -> dict[str, Form]:
    """Return by UUID how devices are advertised."""
    found: dict[str, Form] = {}
    for name, devices in resources.items():
        shares = Counter(one.uuid for one in devices)
        for one in devices:
            if one.uuid not in found and not _is(one, Kind.UNSHARABLE):
                found[one.uuid] = Form(one.gpu_uuid, name, _kind(one), shares[one.uuid])
    return found


def held(
    resources: Resources, holders: Holders, inventory: Inventory, now: Mapping[str, Form]
) -> dict[str, Problem]:
    """Return by UUID why devices must not be given away as they are advertised ``now``."""
    found: dict[str, Problem] = {}
    given = _by_gpu(holders.given or (), inventory)
    for name, devices in resources.items():
        ids = Devices.of(devices).by_id
        for uuid, device in {one.uuid: one for one in devices if one.uuid in now}.items():
            form, place = now[uuid], Place(device.gpu_uuid, *(device.instance or ()))
            same = holders.forms.get(uuid, form).kind == form.kind
            others = [
                one
                for its, one in given.get(device.gpu_uuid, ())
                if _overlap(its, place)
                and not (same and one.resource == name and one.device in ids)
            ]
            if others:
                unreported = [one for one in others if one.resource == UNREPORTED]
                why = FORGOTTEN if unreported else WAITS
                found[uuid] = Problem(Kind.HELD, why + _who(unreported or others))
            elif _open(uuid, form, holders):
                found[uuid] = Problem(Kind.ASKS, ASKS)
    return found


def _by_gpu(
    given: Sequence[Allocation], inventory: Inventory
) -> dict[str, list[tuple[Place, Allocation]]]:
    node = [OfGpu(one.gpu, one.layout.instances, one.mig) for one in inventory.gpus]
    found: dict[str, list[tuple[Place, Allocation]]] = {}
    for one in given:
        for place in places(one, node):
            found.setdefault(place.gpu, []).append((place, one))
    return found


def _open(uuid: str, form: Form, holders: Holders) -> bool:
    """Tell whether the kubelet has still to be asked about a device."""
    before = holders.forms.get(uuid)
    if holders.given is None:
        return before != form
    if holders.asked.get(uuid) == form:
        return False
    return before not in (None, form) or any(
        _nested(uuid, other, form, one) for other, one in holders.forms.items()
    )


def in_force(
    before: Mapping[str, Form], now: Mapping[str, Form], waiting: Container[str]
) -> dict[str, Form]:
    """Return the forms that are in force once devices are advertised ``now``, of which some are ``waiting``."""
    free = {uuid: form for uuid, form in now.items() if uuid not in waiting}
    kept = {
        uuid: form
        for uuid, form in before.items()
        if not any(_nested(uuid, other, form, one) for other, one in free.items())
    }
    return {**kept, **free}


def _nested(uuid: str, other: str, form: Form, its: Form) -> bool:
    """Tell whether one of two devices is the GPU that the other is a part of."""
    return uuid != other and form.gpu == its.gpu and form.gpu in (uuid, other)


def _who(given: Sequence[Allocation]) -> str:
    more = len({(one.namespace, one.pod) for one in given}) - 1
    return f"{given[0]}" + (f" and {counted(more, 'more pod')}" if more else "")


def _kind(device: Device) -> str:
    if device.mps:
        return MPS
    return WHOLE if device.replica is None else TIME_SLICING


def _is(device: Device, kind: Kind) -> bool:
    return device.problem is not None and device.problem.kind is kind


def _overlap(one: Place, other: Place) -> bool:
    """Tell whether places of one GPU have anything in common; None is the whole of it."""
    return all(a == b or None in (a, b) for a, b in zip(one, other, strict=True))


def dump(found: Mapping[str, Form]) -> dict[str, list[Any]]:
    """Return forms as JSON can hold them."""
    return {uuid: list(form) for uuid, form in sorted(found.items())}


def load(data: object) -> dict[str, Form]:
    """Read what dump() returned. TypeError, ValueError: it is nothing of that."""
    if not isinstance(data, dict):
        raise TypeError(f"{data!r} is no object")
    return {
        str(uuid): Form(str(gpu), str(name), str(kind), int(shares))
        for uuid, (gpu, name, kind, shares) in data.items()
    }
