# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How the GPUs are connected: asked for once, since it stays, but for NVLinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from .._shared._base.gpu import FUNCTION_NOT_FOUND, NOT_SUPPORTED, Gpu, Links, NvmlError
from .._shared._machine.nvml import readings
from ..model.topology import Topology
from .asking import Asking

ANEW: Final = 600.0  # seconds until NVLinks are asked for again: they may train late


class Connections:
    """How the GPUs are connected, asked for each pair once: ``topology`` is what is known."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.topology = Topology()
        self._clock = clock
        self._generation: object = None
        self._levels: dict[frozenset[str], int | None] = {}
        self._links: dict[tuple[str, bool], Links] = {}
        self._linked: dict[tuple[str, bool], float] = {}  # when they were asked for

    def refresh(self, gpus: Sequence[Gpu], generation: object, asking: Asking) -> None:
        """Read what is not known yet. NvmlError: a GPU did not answer, which the next call asks again.

        ``generation``: the driver's; another one knows other links. GPUs that are late are left out.
        """
        if generation != self._generation:
            self._levels.clear()
            self._links.clear()
            self._linked.clear()
            self._generation = generation
        on = {gpu.uuid: gpu.mig_current for gpu in gpus}  # MIG mode takes NVLinks down
        by_index = {gpu.index: gpu for gpu in gpus} if len(gpus) > 1 else {}
        late = asking.slow()  # which would keep those beside them waiting
        in_time = [gpu for gpu in gpus if gpu.index not in late]
        pairs = {gpu.index: self._unknown(gpu, in_time[at + 1 :]) for at, gpu in enumerate(in_time)}
        old = self._clock() - ANEW
        alone = {one.index for one in in_time if self._linked.get(_key(one), old) <= old}
        keys = [at for at in by_index if at in alone or pairs.get(at)]
        answers = asking.each(
            "connections",
            keys,
            lambda at: self._ask(by_index[at], at in alone, pairs[at]),
            known=by_index,
        )
        known = Topology(
            {pair: level for pair, level in self._levels.items() if level is not None},
            {uuid: one for (uuid, mode), one in self._links.items() if on.get(uuid, mode) == mode},
            {**self.topology.addresses, **{gpu.uuid: gpu.pci_bus_id for gpu in gpus}},
        )
        if known != self.topology:
            self.topology = known
        for error in filter(None, answers.values()):
            raise error

    def _unknown(self, gpu: Gpu, others: Sequence[Gpu]) -> list[Gpu]:
        return [one for one in others if frozenset((gpu.uuid, one.uuid)) not in self._levels]

    def _ask(self, gpu: Gpu, links: bool, others: Sequence[Gpu]) -> NvmlError | None:
        """Ask for a GPU's links, if so, and how near others are."""
        failed = None
        try:
            if links:
                self._links[_key(gpu)] = readings.links(gpu)
                self._linked[_key(gpu)] = self._clock()
        except NvmlError as error:
            failed = error
        for other in others:
            pair = frozenset((gpu.uuid, other.uuid))
            try:
                self._levels[pair] = readings.level(gpu, other)
            except NvmlError as error:
                if error.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                    self._levels[pair] = None
                failed = error
        return failed


def _key(gpu: Gpu) -> tuple[str, bool]:
    return gpu.uuid, gpu.mig_current
