# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The enforcements in use: the configured one, and those that claims were prepared with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ..._shared._base.dra.names import CGROUP, ENFORCEMENTS, HAMI_CORE, MPS, NONE
from ..._shared._base.errors import InputError, NodeError
from ...config.allocation import Dra
from ...model.mps.paths import ROOT
from ...mps import units
from ..users import Users
from ..values import Enforcement, Share
from .cgroup import Cgroup
from .hami_core import HamiCore
from .mps import Mps


@dataclass(frozen=True)
class Places:
    """The places on the node, and which pods have which claims.

    managers is who runs the manager of MPS daemons: see mps.units.
    """

    root: Path = Path("/")
    run: Path = Path("/run/gpu-node")
    mps_root: str = ROOT
    managers: str = ""
    users: Users = field(default_factory=lambda: Users(Path("/var/lib/kubelet")))


DEFAULT: Final = Places()


def own(asked: Dra) -> tuple[object, ...]:
    """Return the part of the configuration that an enforcement is made with."""
    if asked.enforcement == MPS:
        return (asked.split_count,)
    if asked.enforcement == HAMI_CORE:
        return (asked.library, asked.sha256, asked.memory_scaling > 1)
    return ()


def choose(asked: Dra, places: Places = DEFAULT) -> Enforcement:
    """Return the enforcement that is asked for.

    Raises:
        InputError: if there is none of that name.
    """
    if asked.enforcement == NONE:
        return Enforcement()
    if asked.enforcement == MPS:
        folder = places.run / "mps"
        manager = units.choose(places.managers, folder)
        return Mps(folder, manager, places.mps_root, asked.split_count)
    if asked.enforcement == HAMI_CORE:
        library = places.root / asked.library.lstrip("/") if asked.library else Path()
        scaled = asked.memory_scaling > 1
        folder = places.run / "hami-core"
        return HamiCore(str(library), folder, scaled=scaled, sha256=asked.sha256)
    if asked.enforcement == CGROUP:
        return Cgroup(places.root / "sys/fs/cgroup", places.users)
    raise InputError.of(
        "gpuNode.dra.enforcement", asked.enforcement, f"one of {', '.join(ENFORCEMENTS)}"
    )


class Enforcements:
    """The enforcements by name, each made on its first use. Any thread may ask.

    Attributes:
        dra: The configuration, which the main loop keeps up to date.

    Args:
        live: Returns the shares that are prepared with an enforcement, or are about to be.
    """

    def __init__(self, dra: Dra, places: Places, live: Callable[[str], Sequence[Share]]) -> None:
        self.dra, self._places, self._live = dra, places, live
        self._lock = threading.Lock()
        self._made: dict[str, tuple[object, Enforcement]] = {}

    def of(self, name: str) -> Enforcement:
        """Return an enforcement by its name, a new one if its part of the configuration has changed."""
        asked = replace(self.dra, enforcement=name)
        with self._lock:
            if name not in self._made or self._made[name][0] != own(asked):
                made = choose(asked, self._places)
                made.restore(self._live(name))
                self._made[name] = own(asked), made
            return self._made[name][1]

    def problems(self, gpus: Iterable[str]) -> dict[str, str]:
        """Return by GPU why shares can't be enforced as configured, for each GPU where that is so."""
        try:
            enforcement = self.of(self.dra.enforcement)
            problems_by_gpu = {uuid: enforcement.problem(uuid) for uuid in gpus}
        except NodeError as error:
            return dict.fromkeys(gpus, str(error))
        return {uuid: problem for uuid, problem in problems_by_gpu.items() if problem}

    def tick(self) -> None:
        """Look after what runs."""
        with self._lock:
            made = [enforcement for _own, enforcement in self._made.values()]
        for enforcement in made:
            enforcement.tick()
