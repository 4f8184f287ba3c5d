# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""LimitRanges, ResourceQuotas and DeviceClasses, by which pods that get claims are judged."""

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

FRESH: Final = (
    1.0  # seconds for which limits hold that were read, as the pods of a Deployment come at once
)
RIGHTS: Final = (
    "give the webhook's ServiceAccount list of limitranges, resourcequotas, and deviceclasses: apply"
    " files/kubernetes/dra/webhook.yaml again"
)
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Limits:
    """The objects that limit a namespace, and the DeviceClasses if it has a quota."""

    read_at: float
    limit_ranges: Sequence[Json]
    quotas: Sequence[Json]
    device_classes: Sequence[Json]


class Namespaces:
    """Applies the limits of namespaces to pods that get claims. Any thread may call."""

    def __init__(
        self, access: Access, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._access, self._settings, self._clock = access, settings, clock
        self._lock = threading.Lock()
        self._known: dict[str, Limits] = {}

    def check(self, namespace: str, pod: Json, templates: Sequence[Template]) -> None:
        """Refuse a pod that its namespace's limits don't allow.

        Raises:
            Refused: if a LimitRange or a ResourceQuota doesn't allow the pod.
            ApiError: if the limits can't be read.
        """
        known = self._limits(namespace)
        check_limit_ranges(pod, self._settings, known.limit_ranges)
        check_quotas(pod, self._settings, templates, known.quotas, known.device_classes)

    def _limits(self, namespace: str) -> Limits:
        moment = self._clock()
        with self._lock:
            known = self._known.get(namespace)
        if known is not None and moment - known.read_at < FRESH:
            return known
        path = f"/api/v1/namespaces/{namespace}"
        ranges = self._list(f"{path}/limitranges", "LimitRange")
        quotas = self._list(f"{path}/resourcequotas", "ResourceQuota")
        classes = self._list(f"{API}/deviceclasses", "DeviceClass") if quotas else ()
        known = Limits(moment, ranges, quotas, classes)
        with self._lock:
            if len(self._known) >= limits.MOST_NAMESPACES:
                self._known.clear()
            self._known[namespace] = known
        return known

    def _list(self, path: str, kind: str) -> Sequence[Json]:
        return tuple(items(self._access.ask, f"listing {kind} objects", path, rights=RIGHTS))
