# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects by their paths, with versions, and what happened to them for those that watch."""

from __future__ import annotations

import copy
import itertools
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.kubernetes.standin.resources import Asked, Resource, read

Json = dict[str, Any]
TIME = "2026-11-22T00:00:00Z"  # of all that happens
KEPT = 1000  # changes
COUNTED = {"Pod", "ResourceSlice", "PodDisruptionBudget", "Deployment", "NodeFeature"}
COUNTED |= {"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"}
COUNTED |= {"ValidatingAdmissionPolicyBinding", "CustomResourceDefinition"}


@dataclass(frozen=True)
class Change:
    """What happened to an object, which is as it was then."""

    version: int
    kind: str
    about: Asked
    now: Json
    before: Json | None


class Store(MutableMapping[str, Json]):
    """``news`` is notified of each change; who looks at more than one thing holds it."""

    def __init__(self) -> None:
        self._objects: dict[str, Json] = {}
        self._uids = itertools.count(1)
        self.changes: deque[Change] = deque()
        self.version, self.oldest = 1, 0
        self.news = threading.Condition()

    def __getitem__(self, path: str) -> Json:
        return self._objects[path]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._objects))

    def __len__(self) -> int:
        return len(self._objects)

    def __setitem__(self, path: str, found: Json) -> None:
        """Keep an object as it is now; it has a new version then, and what every object has."""
        about = _about(path)
        with self.news:
            before = self._objects.get(path)
            self.version += 1
            kept = _whole(about, found, before)
            kept["metadata"]["resourceVersion"] = str(self.version)
            self._objects[path] = kept
            self._happened("MODIFIED" if before else "ADDED", about, kept, before)

    def __delitem__(self, path: str) -> None:
        with self.news:
            before = self._objects.pop(path)
            self.version += 1
            meta = {**before["metadata"], "resourceVersion": str(self.version)}
            self._happened("DELETED", _about(path), {**before, "metadata": meta}, before)

    def _happened(self, kind: str, about: Asked, now: Json, before: Json | None) -> None:
        change = Change(self.version, kind, about, copy.deepcopy(now), copy.deepcopy(before))
        self.changes.append(change)
        if len(self.changes) > KEPT:
            self.oldest = max(self.oldest, self.changes.popleft().version)
        self.news.notify_all()

    def moved_on(self) -> None:
        """Let there be a new version, of something that nobody here sees."""
        with self.news:
            self.version += 1
            self.news.notify_all()

    def forget(self) -> None:
        """Forget the past: who goes on from there is told so."""
        with self.news:
            self.moved_on()
            self.oldest = self.version

    def of(self, resource: Resource, namespace: str = "") -> list[Json]:
        """Return the objects of a kind, by their names."""
        with self.news:
            found = [(path, one) for path, one in self._objects.items()]
        about = ((path, _about(path), one) for path, one in found)
        chosen = [
            (path, one)
            for path, what, one in about
            if what.resource is resource and namespace in ("", what.namespace)
        ]
        return [one for _path, one in sorted(chosen, key=lambda pair: pair[0])]


_KNOWN: dict[str, Asked] = {}


def _about(path: str) -> Asked:
    if path not in _KNOWN:
        found = read("GET", path)
        assert found is not None, f"{path} is no object's"
        assert found.name, f"{path} is no object's"
        _KNOWN[path] = found
    return _KNOWN[path]


def _whole(about: Asked, found: Json, before: Json | None) -> Json:
    """Return an object with what every one has."""
    was = before["metadata"] if before else {}
    given = found.get("metadata", {})
    meta = {
        "name": about.name,
        **({"namespace": about.namespace} if about.namespace else {}),
        "uid": was.get("uid") or str(uuid.uuid4()),
        "creationTimestamp": was.get("creationTimestamp", TIME),
        **given,
    }
    kept = {"kind": about.resource.kind, "apiVersion": about.resource.api, **found}
    kept["metadata"] = meta
    if about.resource.kind in COUNTED:
        same = before is not None and _content(before) == _content(kept)
        meta["generation"] = was.get("generation", 0) + (not same)
    return kept


def _content(one: Json) -> Json:
    return {key: part for key, part in one.items() if key not in ("metadata", "status")}


class Named(MutableMapping[str, Json]):
    """The objects of a folder of the store, by a name that leads to their path."""

    def __init__(
        self, store: Store, path: Callable[[str], str], name: Callable[[Asked], str | None]
    ) -> None:
        self._store, self._path, self._name = store, path, name

    def __getitem__(self, name: str) -> Json:
        return self._store[self._path(name)]

    def __setitem__(self, name: str, found: Json) -> None:
        self._store[self._path(name)] = found

    def __delitem__(self, name: str) -> None:
        del self._store[self._path(name)]

    def __iter__(self) -> Iterator[str]:
        return iter([name for path in self._store if (name := self._name(_about(path)))])

    def __len__(self) -> int:
        return sum(1 for _each in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __eq__(self, other: object) -> bool:
        return dict(self) == other

    __hash__ = None  # type: ignore[assignment]


def named(store: Store, resource: Resource) -> Named:
    """Return the objects of a kind by name, and by namespace/name where they have one."""

    def path(name: str) -> str:
        namespace, _slash, short = name.rpartition("/")
        return resource.path(namespace, short)

    def name(about: Asked) -> str | None:
        if about.resource is not resource:
            return None
        return "/".join(filter(None, (about.namespace, about.name)))

    return Named(store, path, name)
