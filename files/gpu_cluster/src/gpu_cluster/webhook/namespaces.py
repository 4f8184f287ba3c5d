# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Checks a pod's claims against the LimitRanges and ResourceQuotas of its namespace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_plugin._shared._cluster.machine.api import items
from gpu_plugin.cluster.access import Access

from ..hami.namespace_limits import check_limit_ranges, check_quotas
from ..hami.settings import Settings
from ..hami.template import Template
from . import limits
from .templates import API

# Seconds that the limits of a namespace are cached, since the pods of a Deployment arrive in a burst.
MAX_AGE: Final = 1.0
RIGHTS: Final = (
    "give the webhook's ServiceAccount list of limitranges, resourcequotas, and deviceclasses: apply"
    " files/kubernetes/dra/webhook.yaml again"
)
Json = Mapping[str, Any]


@dataclass(frozen=True)
class NamespaceLimits:
    """The objects that limit a namespace.

    Attributes:
        read_at: When they were read, by the clock of ``Namespaces``.
        device_classes: Those of the cluster; empty without a quota, since only quotas count devices by class.
    """

    read_at: float
    limit_ranges: Sequence[Json]
    quotas: Sequence[Json]
    device_classes: Sequence[Json]


class Namespaces:
    """Checks pods that get claims against the limits of their namespaces. Thread-safe."""

    def __init__(
        self, access: Access, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._access, self._settings, self._clock = access, settings, clock
        self._lock = threading.Lock()
        self._cache: dict[str, NamespaceLimits] = {}

    def check(self, namespace: str, pod: Json, templates: Sequence[Template]) -> None:
        """Refuse a pod that its namespace's limits don't allow.

        Raises:
            Refused: if a LimitRange or a ResourceQuota doesn't allow the pod.
            ApiError: if the limits can't be read.
        """
        current = self._read_limits(namespace)
        check_limit_ranges(pod, self._settings, current.limit_ranges)
        check_quotas(pod, self._settings, templates, current.quotas, current.device_classes)

    def _read_limits(self, namespace: str) -> NamespaceLimits:
        """Return the limits of a namespace, from the cache if they are recent."""
        moment = self._clock()
        with self._lock:
            cached = self._cache.get(namespace)
        if cached is not None and moment - cached.read_at < MAX_AGE:
            return cached
        # The lock isn't held here: a slow API server must not stall the reviews of other namespaces.
        path = f"/api/v1/namespaces/{namespace}"
        ranges = self._list(f"{path}/limitranges", "LimitRange")
        quotas = self._list(f"{path}/resourcequotas", "ResourceQuota")
        classes = self._list(f"{API}/deviceclasses", "DeviceClass") if quotas else ()
        current = NamespaceLimits(moment, ranges, quotas, classes)
        with self._lock:
            if len(self._cache) >= limits.MOST_NAMESPACES:
                self._cache.clear()
            self._cache[namespace] = current
        return current

    def _list(self, path: str, kind: str) -> Sequence[Json]:
        return tuple(items(self._access.ask, f"listing {kind} objects", path, rights=RIGHTS))
