# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Asks the driver how GPUs are connected, for each pair once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .._shared._core.gpu import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Gpu, Links, NvmlError
from .._shared._nvml import readings as nvml
from ..offer.preference import Topology


class Connections:
    """``topology`` is what is known. What a GPU did not answer is asked again by the next call."""

    def __init__(self) -> None:
        self.topology = Topology()
        self._generation: object = None
        self._levels: dict[frozenset[str], int | None] = {}
        self._links: dict[tuple[str, bool], Links] = {}

    def refresh(self, gpus: Sequence[Gpu], generation: object) -> None:
        """Read what is not known yet. NvmlError: a GPU did not answer, and the rest is known.

        ``generation``: the driver's; another one knows other links.
        """
        if generation != self._generation:
            self._levels.clear()
            self._links.clear()
            self._generation = generation
        failed: NvmlError | None = None
        for pair in itertools.combinations(gpus, 2):
            key = frozenset(gpu.uuid for gpu in pair)
            if key not in self._levels:
                try:
                    self._levels[key] = nvml.level(*pair)
                except NvmlError as error:
                    if error.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                        self._levels[key] = None
                    failed = error
        for gpu in gpus if len(gpus) > 1 else ():
            mode = (gpu.uuid, gpu.mig_current)  # MIG mode takes NVLinks down
            if mode not in self._links:
                try:
                    self._links[mode] = nvml.links(gpu)
                except NvmlError as error:
                    failed = error
        self._publish(gpus)
        if failed:
            raise failed

    def _publish(self, gpus: Sequence[Gpu]) -> None:
        on = {gpu.uuid: gpu.mig_current for gpu in gpus}
        known = Topology(
            {pair: level for pair, level in self._levels.items() if level is not None},
            {
                uuid: links
                for (uuid, mode), links in self._links.items()
                if on.get(uuid, mode) == mode
            },
            {**self.topology.addresses, **{gpu.uuid: gpu.pci_bus_id for gpu in gpus}},
        )
        if known != self.topology:
            self.topology = known
