# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How the GPUs are connected: asked for once, since it stays."""

from __future__ import annotations

from collections.abc import Sequence

from .._shared._core.gpu import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Gpu, Links, NvmlError
from .._shared._nvml import readings
from ..offer.preference import Topology
from .asking import Asking


class Connections:
    """How the GPUs are connected, asked for each pair once: ``topology`` is what is known."""

    def __init__(self) -> None:
        self.topology = Topology()
        self._generation: object = None
        self._levels: dict[frozenset[str], int | None] = {}
        self._links: dict[tuple[str, bool], Links] = {}

    def refresh(self, gpus: Sequence[Gpu], generation: object, asking: Asking) -> None:
        """Read what is not known yet. NvmlError: a GPU did not answer, which the next call asks again.

        ``generation``: the driver's; another one knows other links. GPUs that are late are left out.
        """
        if generation != self._generation:
            self._levels.clear()
            self._links.clear()
            self._generation = generation
        on = {gpu.uuid: gpu.mig_current for gpu in gpus}  # MIG mode takes NVLinks down
        by_index = {gpu.index: gpu for gpu in gpus} if len(gpus) > 1 else {}
        alone = [at for at, gpu in by_index.items() if (gpu.uuid, on[gpu.uuid]) not in self._links]
        failed = list(asking.each(alone, lambda at: self._ask_links(by_index[at])).values())
        late = asking.late()  # whoever did not answer for itself would keep those beside it waiting
        left = [gpu for gpu in gpus if gpu.index not in late]
        pairs = {gpu.index: self._unknown(gpu, left[at + 1 :]) for at, gpu in enumerate(left)}
        pairs = {at: others for at, others in pairs.items() if others}
        answers = asking.each(pairs, lambda at: self._ask_levels(by_index[at], pairs[at]))
        failed += answers.values()
        known = Topology(
            {pair: level for pair, level in self._levels.items() if level is not None},
            {uuid: one for (uuid, mode), one in self._links.items() if on.get(uuid, mode) == mode},
            {**self.topology.addresses, **{gpu.uuid: gpu.pci_bus_id for gpu in gpus}},
        )
        if known != self.topology:
            self.topology = known
        for error in filter(None, failed):
            raise error

    def _unknown(self, gpu: Gpu, others: Sequence[Gpu]) -> list[Gpu]:
        return [one for one in others if frozenset((gpu.uuid, one.uuid)) not in self._levels]

    def _ask_links(self, gpu: Gpu) -> NvmlError | None:
        try:
            self._links[gpu.uuid, gpu.mig_current] = readings.links(gpu)
        except NvmlError as error:
            return error
        return None

    def _ask_levels(self, gpu: Gpu, others: Sequence[Gpu]) -> NvmlError | None:
        failed = None
        for other in others:
            pair = frozenset((gpu.uuid, other.uuid))
            try:
                self._levels[pair] = readings.level(gpu, other)
            except NvmlError as error:
                if error.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                    self._levels[pair] = None
                failed = error
        return failed
