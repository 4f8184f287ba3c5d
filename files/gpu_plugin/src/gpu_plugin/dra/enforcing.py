# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The enforcements in use: the one that the configuration asks for, and those that claims were prepared with."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace

from .._shared._base.errors import NodeError
from ..config.allocation import Dra
from .enforcement.choice import Places, choose, own
from .prepare.checkpoint import Checkpoint
from .values import Enforcement


class Enforcements:
    """Each is made when it is first wanted, by ``dra``, which the main loop keeps up to date. Any thread may ask."""

    def __init__(self, dra: Dra, places: Places, checkpoint: Checkpoint) -> None:
        self.dra, self._places, self._checkpoint = dra, places, checkpoint
        self._lock = threading.Lock()
        self._made: dict[str, tuple[object, Enforcement]] = {}

    def of(self, name: str) -> Enforcement:
        """Return an enforcement by its name, a new one where it would be made otherwise by now. NodeError."""
        asked = replace(self.dra, enforcement=name)
        with self._lock:
            if name not in self._made or self._made[name][0] != own(asked):
                made = choose(asked, self._places)
                made.restore(self._checkpoint.shares(name))
                self._made[name] = own(asked), made
            return self._made[name][1]

    def problems(self, gpus: Iterable[str]) -> dict[str, str]:
        """Return why shares can't be enforced as the configuration asks, for each GPU where that is so."""
        try:
            wanted = self.of(self.dra.enforcement)
            found = {uuid: wanted.problem(uuid) for uuid in gpus}
        except NodeError as error:
            return dict.fromkeys(gpus, str(error))
        return {uuid: problem for uuid, problem in found.items() if problem}

    def tick(self) -> None:
        """Look after what runs."""
        with self._lock:
            made = [one for _own, one in self._made.values()]
        for one in made:
            one.tick()
