# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""LimitRanges, ResourceQuotas and DeviceClasses, read for each pod that gets claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_plugin.cluster.access import Access

from ..hami.namespace_limits import check_limit_ranges, check_quotas
from ..hami.settings import Settings
from ..hami.template import Template
from ..lists import items
from .templates import API

RIGHTS: Final = (
    "give the webhook's ServiceAccount list of limitranges, resourcequotas, and deviceclasses: apply"
    " files/kubernetes/dra/webhook.yaml again"
)
Json = Mapping[str, Any]


class Namespaces:
    """Applies the limits of namespaces to pods that get claims."""

    def __init__(self, access: Access, settings: Settings) -> None:
        self._access, self._settings = access, settings

    def check(self, namespace: str, pod: Json, templates: Sequence[Template]) -> None:
        """Refuse a pod that its namespace's limits don't allow.

        Raises:
            Refused: if a LimitRange or a ResourceQuota doesn't allow the pod.
            ApiError: if the limits can't be read.
        """
        path = f"/api/v1/namespaces/{namespace}"
        check_limit_ranges(pod, self._settings, self._list(f"{path}/limitranges", "LimitRange"))
        quotas = list(self._list(f"{path}/resourcequotas", "ResourceQuota"))
        if quotas:
            classes = self._list(f"{API}/deviceclasses", "DeviceClass")
            check_quotas(pod, self._settings, templates, quotas, classes)

    def _list(self, path: str, kind: str) -> Iterator[Json]:
        return items(self._access, f"listing {kind} objects", path, rights=RIGHTS)
