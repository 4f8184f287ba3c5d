# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How near the GPUs of a node are to each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .._shared._base.gpu import Links
from .inventory import Device

FARTHEST = 60  # above NVML's highest level, so that every pair is worth something
SAME_NODE, OTHER_NODE = 40, 50
NVLINK = 100


@dataclass(frozen=True)
class Topology:
    """The levels by pairs of GPUs' UUIDs, and each GPU's NVLinks.

    If a pair is not known, because a GPU did not answer, its NUMA nodes stand for how near it is.
    """

    levels: Mapping[frozenset[str], int] = field(default_factory=dict)
    links: Mapping[str, Links] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    _scores: dict[tuple[str, int | None, str, int | None], int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def score(self, first: Device, second: Device) -> int:
        """Return the worth of a pair, higher being better: any NVLink is more than any PCIe."""
        pair = (first.gpu_uuid, first.numa_node, second.gpu_uuid, second.numa_node)
        if pair not in self._scores:
            level = self.levels.get(frozenset((first.gpu_uuid, second.gpu_uuid)))
            if level is None:
                level = SAME_NODE if first.numa_node == second.numa_node else OTHER_NODE
            nvlinks = self._links(first.gpu_uuid, second.gpu_uuid)
            self._scores[pair] = FARTHEST - level + NVLINK * nvlinks
        return self._scores[pair]

    def _links(self, first: str, second: str) -> int:
        here, there = self.links.get(first), self.links.get(second)
        if here is None or there is None:
            return 0
        # One end may not have answered about a link that both have.
        direct = max(
            here.peers.get(self.addresses.get(second, ""), 0),
            there.peers.get(self.addresses.get(first, ""), 0),
        )
        return direct + min(here.switch, there.switch)
