# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which enforcement the configuration asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from ..._shared._base.dra.names import CGROUP, ENFORCEMENTS, HAMI_CORE, MPS, NONE
from ..._shared._base.errors import InputError
from ...model.mps.paths import ROOT
from ...mps import units
from ..users import Users
from ..values import Enforcement
from .cgroup import Cgroup
from .hami_core import HamiCore
from .mps import Mps
from .nothing import Nothing


class Asked(Protocol):
    """What config.allocation.Dra says of the enforcement."""

    @property
    def enforcement(self) -> str: ...

    @property
    def split_count(self) -> int: ...

    @property
    def memory_scaling(self) -> float: ...

    @property
    def best_effort(self) -> bool: ...

    @property
    def library(self) -> str: ...


@dataclass(frozen=True)
class Places:
    """Where things are on the node, and which pods have which claims.

    managers is who runs the manager of MPS daemons: see mps.units.
    """

    root: Path = Path("/")
    run: Path = Path("/run/gpu-node")
    mps_root: str = ROOT
    managers: str = ""
    users: Users = field(default_factory=lambda: Users(Path("/var/lib/kubelet")))


DEFAULT: Final = Places()


def own(asked: Asked) -> tuple[object, ...]:
    """Return what of the configuration an enforcement is made with."""
    if asked.enforcement == MPS:
        return (asked.split_count,)
    return (asked.library, asked.memory_scaling > 1) if asked.enforcement == HAMI_CORE else ()


def choose(asked: Asked, places: Places = DEFAULT) -> Enforcement:
    """Return the enforcement that is asked for. InputError: there is none of that name."""
    if asked.enforcement == NONE:
        return Nothing()
    if asked.enforcement == MPS:
        folder = places.run / "mps"
        manager = units.choose(places.managers, folder)
        return Mps(folder, manager, places.mps_root, asked.split_count)
    if asked.enforcement == HAMI_CORE:
        library = places.root / asked.library.lstrip("/") if asked.library else Path()
        scaled = asked.memory_scaling > 1
        return HamiCore(str(library), places.run / "hami-core", scaled=scaled)
    if asked.enforcement == CGROUP:
        return Cgroup(places.root / "sys/fs/cgroup", places.users)
    raise InputError.of(
        "gpuNode.dra.enforcement", asked.enforcement, f"one of {', '.join(ENFORCEMENTS)}"
    )
