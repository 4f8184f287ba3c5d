# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is done about a request that its user may make."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tests.fakes.kubernetes.standin import evictions, lists, patches
from tests.fakes.kubernetes.standin.admission import order, validation
from tests.fakes.kubernetes.standin.admission.way import Way
from tests.fakes.kubernetes.standin.answers import (
    CHANGED,
    METHOD,
    MODIFIED,
    RECREATED,
    Refused,
    conflict,
    exists,
    missing,
    success,
)
from tests.fakes.kubernetes.standin.requests import Request
from tests.fakes.kubernetes.standin.resources import Asked
from tests.fakes.kubernetes.standin.selectors import selection
from tests.fakes.kubernetes.standin.store import TIME, Store

if TYPE_CHECKING:
    from tests.fakes.kubernetes.standin.api import StandIn

Json = dict[str, Any]
Answer = tuple[int, Json]
# Whose status only a request for it changes, and which begin without one.
WITH_STATUS = {"Node", "Pod", "ResourceClaim", "PodDisruptionBudget", "ResourceQuota", "Namespace"}
BORN_WITHOUT = WITH_STATUS - {"Node"}
SHOWN = {"Pod", "Namespace", "ServiceAccount"}  # in the answer to their removal
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
STORED = (
    "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0,"
    " AdditionalErrorMsg: Precondition failed: UID in precondition: {}, UID in object meta: {}"
)
UNTRUE = "the server rejected our request due to an error in our request"


@dataclass(frozen=True)
class Doing:
    """A request with what it is about, where it is done."""

    api: StandIn
    request: Request
    asked: Asked

    @property
    def store(self) -> Store:
        return self.api.objects

    def answer(self) -> Answer:
        """Do what is asked. Refused."""
        found = {
            "get": self._get,
            "list": lambda: (200, lists.listed(self.asked, self.request, self.store)),
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_some,
        }.get(self.asked.verb)
        if found is None or not self._named_rightly():
            raise Refused(405, METHOD, {})
        return found()

    def _named_rightly(self) -> bool:
        """Return whether a request names an object where it has to, and else none."""
        wanted = {"PUT": True, "PATCH": True, "POST": bool(self.asked.subresource)}
        return wanted.get(self.request.method, bool(self.asked.name)) == bool(self.asked.name)

    def _there(self) -> Json:
        found = self.store.get(self.asked.path)
        if found is None:
            raise missing(self.asked.resource, self.asked.name)
        return copy.deepcopy(found)

    def _get(self) -> Answer:
        return 200, lists.shown(self._there(), self.request)

    # --- new objects ---

    def _create(self) -> Answer:
        resource = self.asked.resource
        if resource.kind == "SelfSubjectAccessReview":
            return 201, self.api.review(self.request.user, self.request.object(resource))
        if self.asked.subresource == "eviction":
            return evictions.evict(self)
        found = self.request.object(resource)
        if self.request.query.get("fieldValidation") == "Strict":
            validation.check_strictly(resource, found)
        meta = found["metadata"] = {**(found.get("metadata") or {})}
        if "resourceVersion" in meta:
            said = "resourceVersion should not be set on objects to be created"
            raise Refused(500, said, reason=None)
        self._placed(meta)
        if not meta.get("name") and meta.get("generateName"):
            ending = "".join(random.choices(LETTERS, k=5))
            meta["name"] = f"{meta['generateName']}{ending}"
        if resource.kind in BORN_WITHOUT:
            found.pop("status", None)
        return 201, lists.shown(self._let_in(found, None), self.request)

    def _placed(self, meta: Json) -> None:
        """See that an object says of itself where it is."""
        if not self.asked.namespace:
            return
        if meta.setdefault("namespace", self.asked.namespace) != self.asked.namespace:
            said = "the namespace of the provided object does not match the namespace sent on the request"
            raise Refused(400, said)

    def _let_in(self, found: Json, before: Json | None) -> Json:
        """Keep an object, after all that has to look at it. Refused."""
        resource = self.asked.resource
        way = Way(self.request.user, self.asked, before, found, self.request.dry)
        changed = order.first(way, self.store)
        assert changed is not None
        found = validation.filled(resource, changed, self.api.drops)
        validation.check(resource, found, before)
        order.last(Way(way.user, self.asked, before, found, way.dry), self.store)
        name = found["metadata"]["name"]
        path = resource.path(self.asked.namespace, name)
        with self.store.news:
            if before is None and path in self.store:
                raise exists(resource, name)
            if self.request.dry:
                return {
                    **found,
                    "metadata": {
                        "uid": str(uuid4()),
                        "creationTimestamp": TIME,
                        **found["metadata"],
                    },
                }
            if before is None or _told(found) != _told(before):
                self.store[path] = self.api.fate(found) if before is None else found
            return copy.deepcopy(self.store[path])

    # --- changes ---

    def _update(self) -> Answer:
        found = self.request.object(self.asked.resource)
        meta = found["metadata"]
        self._same_name(meta)
        self._placed(meta)
        before = self._there()
        same = before["metadata"]["uid"]
        if meta.get("uid", same) != same:
            key = "/".join(filter(None, (self.asked.resource.plural, self.asked.namespace)))
            why = STORED.format(f"{key}/{self.asked.name}", meta["uid"], same)
            raise conflict(self.asked.resource, self.asked.name, why)
        return 200, lists.shown(self._changed(before, found), self.request)

    def _patch(self) -> Answer:
        kind, patch = self.request.patch()
        before = self._there()
        how: Callable[[Any, Any], Any] = {
            "merge": patches.merged,
            "strategic": patches.strategic,
            "json": patches.applied,
        }[kind]
        try:
            found = how(before, patch)
        except (patches.Untrue, LookupError) as error:
            raise Refused(422, UNTRUE, {}) from error
        self._same_name(found["metadata"])
        return 200, lists.shown(self._changed(before, found), self.request)

    def _same_name(self, meta: Json) -> None:
        if meta.get("name") != self.asked.name:
            names = f"({meta.get('name')}) does not match the name on the URL ({self.asked.name})"
            raise Refused(400, f"the name of the object {names}")

    def _changed(self, before: Json, found: Json) -> Json:
        """Keep an object in the place of another one, unless that has been changed since. Refused."""
        version = before["metadata"]["resourceVersion"]
        given = found["metadata"].get("resourceVersion", version)
        if self.asked.subresource == "status":
            found = {**before, "metadata": found["metadata"], "status": found.get("status", {})}
        elif self.asked.resource.kind in WITH_STATUS and "status" in before:
            found = {**found, "status": before["status"]}
        if self.asked.resource.kind == "Node":
            found = managed(before, found, self.request.query.get("fieldManager", "unknown"))
        meta = {**found["metadata"], "resourceVersion": version}
        for key in ("uid", "creationTimestamp"):
            meta.setdefault(key, before["metadata"][key])
        if given != version:
            raise conflict(self.asked.resource, self.asked.name, MODIFIED)
        with self.store.news:
            if self.store.get(self.asked.path, before)["metadata"]["resourceVersion"] != version:
                raise conflict(self.asked.resource, self.asked.name, MODIFIED)
            return self._let_in({**found, "metadata": meta}, before)

    # --- ends ---

    def _delete(self) -> Answer:
        found = self._there()
        self._check_same(found, self.request.options().get("preconditions") or {})
        return 200, self._removed(self.asked, found)

    def _check_same(self, found: Json, wanted: Json) -> None:
        meta, kind = found["metadata"], self.asked.resource.kind
        for key, why in (("uid", RECREATED), ("resourceVersion", CHANGED)):
            if wanted.get(key, meta[key]) != meta[key]:
                why = why.format(wanted[key], meta[key])
                raise conflict(self.asked.resource, self.asked.name, why, kind)

    def _removed(self, asked: Asked, found: Json) -> Json:
        resource, name = asked.resource, found["metadata"]["name"]
        way = Way(self.request.user, asked, found, None, self.request.dry)
        order.first(way, self.store)
        order.last(way, self.store)
        ended = self.end(found, self.request.options().get("gracePeriodSeconds"))
        if resource.kind in SHOWN or resource.group == "resource.k8s.io":
            return ended
        return success(resource, name, found["metadata"]["uid"])

    def end(self, found: Json, grace: int | None) -> Json:
        """Remove an object, or begin to; return it as it is shown."""
        meta, kind = found["metadata"], found["kind"]
        path = self.asked.resource.path(meta.get("namespace", ""), meta["name"])
        with self.store.news:
            if kind == "Namespace":
                ending = {**meta, "deletionTimestamp": TIME}
                self.store[path] = {**found, "metadata": ending, "status": {"phase": "Terminating"}}
                return copy.deepcopy(self.store[path])
            if kind == "Pod":
                return self._end_pod(path, found, grace)
            gone = copy.deepcopy(self.store[path])
            del self.store[path]
            return gone

    def _end_pod(self, path: str, pod: Json, grace: int | None) -> Json:
        """A pod on a node stays until its kubelet has ended it, or for as long as the scene wants it."""
        seconds = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
        seconds = seconds if pod["spec"].get("nodeName") else 0
        seconds = min(seconds, pod["metadata"].get("deletionGracePeriodSeconds", seconds))
        meta = {**pod["metadata"], "deletionTimestamp": TIME, "deletionGracePeriodSeconds": seconds}
        meta["generation"] = meta.get("generation", 1) + (
            "deletionTimestamp" not in pod["metadata"]
        )
        ending = {**pod, "metadata": meta}
        if self.api.ends(pod, seconds):
            del self.store[path]
        else:
            self.store[path] = ending
            self.store[path]["metadata"]["generation"] = meta["generation"]
        return ending

    def _delete_some(self) -> Answer:
        chosen = selection(self.asked.resource, self.request.query)
        found = [
            one for one in self.store.of(self.asked.resource, self.asked.namespace) if chosen(one)
        ]
        for one in found:
            self._removed(self.asked, copy.deepcopy(one))
        meta = {"resourceVersion": str(self.store.version)}
        return 200, lists.items(self.asked, self.request, found, meta)


def managed(before: Json, found: Json, manager: str) -> Json:
    """Return a node of which is known who has made it unschedulable, or schedulable again."""
    was, now = ((one.get("spec") or {}).get("unschedulable") for one in (before, found))
    if was == now:
        return found
    fields = {"f:spec": {"f:unschedulable": {}}}
    meta = {**found["metadata"], "managedFields": [{"manager": manager, "fieldsV1": fields}]}
    return {**found, "metadata": meta}


def _told(one: Json) -> Json:
    """Return what makes an object another one."""
    meta = {key: part for key, part in one["metadata"].items() if key != "resourceVersion"}
    return {**one, "metadata": meta}
