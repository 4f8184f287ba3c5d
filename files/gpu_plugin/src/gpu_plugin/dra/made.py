# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which MIG instances were made for claims, so that no slice changes when one is prepared or given back. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from .._shared._base.dra.checkpoint import PreparedClaim

GRACE: Final = 30.0  # seconds in which a look may still show an instance that went with its claim
Instance = tuple[str, int, int]  # the GPU's UUID, and the profile's id and first slice


class Made:
    """Those that claims have, or had a moment ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Instance, float] = {}  # when a claim last had them

    def of(self, claims: Iterable[PreparedClaim]) -> frozenset[Instance]:
        """Return them, given all claims as they are now."""
        now = self._clock()
        self._seen |= {
            (one.gpu, one.instance.profile_id, one.instance.start): now
            for held in claims
            for one in held.devices
            if one.instance and one.instance.made
        }
        self._seen = {one: at for one, at in self._seen.items() if now - at <= GRACE}
        return frozenset(self._seen)
