# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""ResourceClaimTemplates: created on demand, reused, stamped with the time of their use, and removed when unused.

A template that an admission has named was stamped at most a quarter of the time-to-live before, and
one is removed only when its stamp is older than all of it, with the version that was looked at. So
none is removed between a pod's admission and its creation.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from gpu_plugin._shared._cluster.machine.api import (
    CONFLICT,
    MERGE,
    METADATA,
    MISSING,
    ApiError,
    if_there,
    items,
)
from gpu_plugin.cluster.access import Access

from ..hami.template import Template, name_in
from . import limits
from .budget import Budget

API: Final = "/apis/resource.k8s.io/v1"
KIND: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
OWNER_LABEL, OWNER = "app.kubernetes.io/managed-by", "gpu-node-webhook"
STAMP: Final = "gpu.node/last-used"
# JSON is YAML too. Of that the API server makes the JSON in which it keeps opaque parameters, while it
# keeps JSON as it was written, so that a later change of metadata would count as one of the spec.
YAML: Final = "application/yaml"
FRESH: Final = 4  # a stamp is renewed after this part of the time-to-live
ATTEMPTS: Final = 5
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
UTC: Final = timezone.utc  # noqa: UP017 - datetime.UTC is 3.11's
RIGHTS: Final = "give the webhook's ServiceAccount get, list, create, patch and delete of resourceclaimtemplates"
POD_RIGHTS: Final = "give the webhook's ServiceAccount list of pods"
IDENTITY: Final = ("namespace", "name", "uid", "resourceVersion")
Json = Mapping[str, Any]


class Templates:
    """The templates of all namespaces, through an access that others may share. ``ttl`` is in seconds.

    ``failed`` is why unused ones could not be removed in the last round, by namespace.
    """

    def __init__(self, access: Access, ttl: float, budget: Budget | None = None) -> None:
        self._access, self._ttl, self._budget = access, ttl, budget or Budget()
        self.failed: Mapping[str, ApiError] = {}

    def ensure(
        self,
        namespace: str,
        template: Template,
        time: float,
        look: Callable[[], None] = lambda: None,
    ) -> bool:
        """Create a template, or let it stay for a while. Return whether it was created.

        ``look`` is called between requests, and ends the work by what it raises.

        Raises:
            ApiError: if the API can't be asked, or refuses.
            OverLimit: if the namespace has used up its budget.
        """
        doing = f"looking after the ResourceClaimTemplate {template.name} in {namespace}"
        for _attempt in range(ATTEMPTS):
            try:
                self._budget.look(namespace)
                existing = self._get(doing, namespace, template.name)
                look()
                if existing is None:
                    self._budget.make(namespace)
                    self._create(doing, namespace, template, time)
                    self._budget.made(namespace)
                    return True
                _check(doing, existing, template)
                if time - _stamp(existing["metadata"]) > self._ttl / FRESH:
                    self._touch(doing, existing, time)
                return False
            except ApiError as error:
                # If it is the namespace that is missing or terminating, there is nothing to wait for.
                if error.status not in (CONFLICT, MISSING) or "namespace" in error.cause:
                    raise
                look()
        raise ApiError(doing, "it is changed by others all the time", status=CONFLICT)

    def collect(self, time: float) -> int:
        """Remove our templates that no pod has used for a while. Return how many.

        A namespace that can't be looked at is left for the next round.

        Raises:
            ApiError: if the templates can't be listed.
        """
        counts: Counter[str] = Counter()
        old: dict[str, list[Json]] = {}
        path, query = f"{API}/resourceclaimtemplates", {"labelSelector": f"{OWNER_LABEL}={OWNER}"}
        how = {"query": query, "accept": METADATA, "rights": RIGHTS}
        for item in items(self._access.ask, f"listing {path}", path, **how):
            meta = item["metadata"]
            counts[meta["namespace"]] += 1
            if time - _stamp(meta) > self._ttl:
                old.setdefault(meta["namespace"], []).append({key: meta[key] for key in IDENTITY})
        self._budget.counted(counts)
        removed, failed = 0, dict[str, ApiError]()
        for namespace, templates in old.items():
            try:
                removed += self._collect(namespace, templates)
            except ApiError as error:
                failed[namespace] = error
        self.failed = failed
        return removed

    def _collect(self, namespace: str, templates: list[Json]) -> int:
        path = f"/api/v1/namespaces/{namespace}/pods"
        used = {
            str(claim.get("resourceClaimTemplateName"))
            for pod in items(self._access.ask, f"listing {path}", path, rights=POD_RIGHTS)
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            for claim in (pod.get("spec") or {}).get("resourceClaims") or ()
        }
        unused = [meta for meta in templates if meta["name"] not in used]
        return sum(self._delete(meta) for meta in unused[: limits.MOST_REMOVED])

    def _get(self, doing: str, namespace: str, name: str) -> Json | None:
        path = _path(namespace, name)
        return if_there(lambda: self._access.ask(doing, "GET", path, rights=RIGHTS))

    def _create(self, doing: str, namespace: str, template: Template, time: float) -> None:
        metadata = {
            "name": template.name,
            "labels": {OWNER_LABEL: OWNER},
            "annotations": {STAMP: _text(time)},
        }
        body = {**KIND, "metadata": metadata, "spec": template.spec}
        self._access.ask(doing, "POST", _path(namespace), body, kind=YAML, rights=RIGHTS)

    def _touch(self, doing: str, template: Json, time: float) -> None:
        meta = template["metadata"]
        change = {"resourceVersion": meta["resourceVersion"], "annotations": {STAMP: _text(time)}}
        path = _path(meta["namespace"], meta["name"])
        body = {"metadata": change}
        self._access.ask(doing, "PATCH", path, body, kind=MERGE, rights=RIGHTS)

    def _delete(self, meta: Json) -> int:
        """Remove a template of ours, unless it has changed since it was seen. Return how many were removed."""
        path, doing = _path(meta["namespace"], meta["name"]), f"removing {meta['name']}"
        if not is_ours(self._get(doing, meta["namespace"], meta["name"]) or {}):
            return 0
        seen = {key: meta[key] for key in ("uid", "resourceVersion")}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": seen}
        try:
            self._access.ask(doing, "DELETE", path, body, rights=RIGHTS)
        except ApiError as error:
            if error.status in (CONFLICT, MISSING):
                return 0
            raise
        return 1


def is_ours(template: Json) -> bool:
    """Return whether we made a template, by its label and by its content, of which its name is made."""
    meta = template.get("metadata") or {}
    labelled = (meta.get("labels") or {}).get(OWNER_LABEL) == OWNER
    return labelled and meta.get("name") == name_in(template.get("spec"))


def _check(doing: str, existing: Json, template: Template) -> None:
    """Refuse to use a template of other content, which others have put in its place."""
    if existing["metadata"].get("deletionTimestamp"):
        raise ApiError(doing, "it is being deleted", status=503, hint="try again")
    if name_in(existing.get("spec")) != template.name:
        hint = f"delete it: kubectl delete resourceclaimtemplate {template.name}"
        raise ApiError(doing, "one is there that has another content", status=403, hint=hint)


def _path(namespace: str, name: str = "") -> str:
    path = f"{API}/namespaces/{namespace}/resourceclaimtemplates"
    return f"{path}/{name}" if name else path


def _stamp(meta: Json) -> float:
    """Return when a template was used last, else when it was made."""
    for text in ((meta.get("annotations") or {}).get(STAMP), meta.get("creationTimestamp")):
        with contextlib.suppress(ValueError):
            return datetime.strptime(str(text), TIME).replace(tzinfo=UTC).timestamp()
    return 0.0


def _text(time: float) -> str:
    return datetime.fromtimestamp(int(time), UTC).strftime(TIME)
