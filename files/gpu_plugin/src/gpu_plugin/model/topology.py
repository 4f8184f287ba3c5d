# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How near the GPUs of a node are to each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .._shared._base.gpu import Links
from .inventory import Device

FARTHEST = 60  # above NVML's highest level, so that every pair is worth something
SAME_NODE, OTHER_NODE = 40, 50
NVLINK = 100


@dataclass(frozen=True)
class Topology:
    """What is known: levels by pairs of GPUs' UUIDs, and each GPU's NVLinks.

    Where a pair is not known, because a GPU did not answer, its NUMA nodes say how near it is.
    """

    levels: Mapping[frozenset[str], int] = field(default_factory=dict)
    links: Mapping[str, Links] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _scores(self) -> dict[tuple[str, int | None, str, int | None], int]:
        return {}

    def score(self, one: Device, other: Device) -> int:
        """Return the worth of a pair, higher being better: any NVLink is more than any PCIe."""
        pair = (one.gpu_uuid, one.numa_node, other.gpu_uuid, other.numa_node)
        if pair not in self._scores:
            self._scores[pair] = self._score(one, other)
        return self._scores[pair]

    def _score(self, one: Device, other: Device) -> int:
        level = self.levels.get(frozenset((one.gpu_uuid, other.gpu_uuid)))
        if level is None:
            level = SAME_NODE if one.numa_node == other.numa_node else OTHER_NODE
        return FARTHEST - level + NVLINK * self._links(one.gpu_uuid, other.gpu_uuid)

    def _links(self, one: str, other: str) -> int:
        here, there = self.links.get(one), self.links.get(other)
        if here is None or there is None:
            return 0
        # One end may not have answered about a link that both have.
        direct = max(
            here.peers.get(self.addresses.get(other, ""), 0),
            there.peers.get(self.addresses.get(one, ""), 0),
        )
        return direct + min(here.switch, there.switch)
