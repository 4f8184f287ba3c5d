# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The devices of a node in ResourceSlices: GPUs, shares, placements and MIG devices of DRA. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from .._shared._base.dra.names import ALL, DRA, GPU, MIG, SHARE, gpu_name, mig_name, share_name
from .._shared._base.gpu import GiProfile, GpuInstance, MigDevice
from .._shared._base.mig_profile import parse
from ..config.allocation import Dra, owner
from ..model.inventory import DISPLAY_ONLY, GpuView, Inventory, is_divided
from .grid import Grid

Made = Collection[tuple[str, int, int]]  # instances of claims: GPU's UUID, profile's id and start


@dataclass(frozen=True)
class Target:
    """A device by its name: a whole GPU, its shares, or a MIG device of a profile.

    A MIG device either exists, which is ``mig``, and stays; or it is made for a claim at ``start``, and goes with the
    claim: then ``uses`` is what it takes of the GPU's counters.
    """

    name: str
    type: str
    view: GpuView
    profile: GiProfile | None = None
    start: int = 0
    size: int = 0
    mig: MigDevice | None = None
    uses: tuple[tuple[str, int], ...] = ()


def targets(inventory: Inventory, dra: Dra, made: Made = ()) -> tuple[Target, ...]:
    """Return the devices of DRA in the order in which the scheduler tries them.

    ``made`` are the MIG instances that live claims had made, which are theirs to destroy.
    """
    views = [view for view in inventory.gpus if owner(view.gpu, dra) == DRA]
    return tuple(
        target
        for view in sorted(views, key=lambda view: view.gpu.minor)
        if view.gpu.name not in DISPLAY_ONLY
        for target in (_parts(view, made) if view.gpu.mig_current else _whole(view, dra.publish))
    )


def grid(view: GpuView, made: Made = ()) -> Grid:
    """Return the grid to place MIG instances on beside those that are not made for claims."""
    return Grid(view.layout.profiles, _foreign(view, made))


def _foreign(view: GpuView, made: Made) -> tuple[GpuInstance, ...]:
    uuid = view.gpu.uuid
    return tuple(
        instance
        for instance in view.layout.instances
        if (uuid, instance.profile_id, instance.start) not in made
    )


def _whole(view: GpuView, publish: str) -> Iterator[Target]:
    for kind, name in ((GPU, gpu_name), (SHARE, share_name)):
        if publish in (ALL, kind):
            yield Target(name(view.gpu.minor), kind, view)


def _parts(view: GpuView, made: Made) -> list[Target]:
    parts = [*_standing(view, made)]
    for profile, start, size, uses in grid(view, made).placements():
        name = mig_name(view.gpu.minor, profile.name, profile.id, start)
        parts.append(Target(name, MIG, view, profile, start, size, uses=tuple(uses.items())))
    return sorted(parts, key=_rank)


def _rank(target: Target) -> tuple[int, ...]:
    """Return the order for requests: first small, plain and existing devices, and those that leave others room.

    The large profiles begin at the first memory slices, so small ones go to the last.
    """
    assert target.profile is not None
    special = bool(parse(target.profile.name).attributes)
    plain = (target.size, target.profile.slices, special, target.profile.id)
    return (*plain, target.mig is None, -target.start)


def _standing(view: GpuView, made: Made) -> Iterator[Target]:
    profiles = {profile.id: profile for profile in view.layout.profiles}
    foreign = {profile.id: profile for profile in _foreign(view, made)}
    for mig in view.mig:
        instance = foreign.get(mig.gi_id)
        if instance is None or instance.profile_id not in profiles or is_divided(mig):
            continue  # the parts of a GPU instance have no names that tell them apart
        name = mig_name(view.gpu.minor, mig.profile, instance.profile_id, instance.start)
        profile, place = profiles[instance.profile_id], (instance.start, instance.size)
        yield Target(name, MIG, view, profile, *place, mig=mig)
