# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Shares are placed, and nobody sees to it that they are kept."""

from __future__ import annotations

from collections.abc import Sequence

from ..._shared._base.dra.names import NONE
from ..values import Edits, Share


class Nothing:
    """Containers take turns on the whole GPU, as with time slices: their requests only placed them."""

    name = NONE

    def problem(self, gpu_uuid: str) -> str:
        """Nothing is needed."""
        return ""

    def prepare(self, shares: Sequence[Share]) -> Edits:
        """Nothing is given but the GPU."""
        return Edits()

    def unprepare(self, shares: Sequence[Share]) -> None:
        """Nothing was given."""

    def restore(self, live: Sequence[Share]) -> None:
        """Nothing was given."""

    def tick(self) -> None:
        """Nothing runs."""
