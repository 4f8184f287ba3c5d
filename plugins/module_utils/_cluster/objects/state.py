# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects of a cluster as manifests have them: which are wanted, what they are called, and whose they are. Pure."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from .secrets import hidden

Json = t.Dict[str, t.Any]
# What the server writes, and what is no wish of anybody's.
WRITTEN = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")
DEFAULT = "default"


class Ref(t.NamedTuple):
    """Which object it is; ``namespace`` is empty where none is given."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


def flat(given: t.Sequence[t.Any], key: str = "objects") -> t.Dict[Ref, Json]:
    """Return all objects, those in Lists too; of two of one name the later counts. InputError."""
    found: t.Dict[Ref, Json] = {}
    for at, one in enumerate(given):
        where = f"{key}[{at}]"
        if isinstance(one, dict) and one.get("kind") == "List":
            found.update(flat(one.get("items") or [], f"{where}.items"))
        else:
            found[_ref(where, one)] = one
    return found


def _ref(where: str, one: t.Any) -> Ref:
    if not isinstance(one, dict):
        raise InputError.of(where, one, "an object of Kubernetes")
    for name in ("apiVersion", "kind"):
        if not isinstance(one.get(name), str) or not one[name]:
            raise InputError.of(f"{where}.{name}", one.get(name), "a text such as v1 or Secret")
    meta = one.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise InputError.of(f"{where}.metadata", hidden(meta, True), "a mapping with a name")
    return ref(one)


def ref(one: Json) -> Ref:
    """Return which object it is."""
    meta = one["metadata"]
    return Ref(one["apiVersion"], one["kind"], meta["name"], meta.get("namespace") or "")


def wishes(one: t.Optional[Json]) -> t.Optional[Json]:
    """Return an object without what the server writes, and without what a Secret has to hide."""
    found: t.Optional[Json] = hidden(_plain(one))
    return found


def same(one: t.Optional[Json], other: t.Optional[Json]) -> bool:
    """Tell whether two states of an object are the same to a user."""
    return _plain(one) == _plain(other)


def _plain(one: t.Optional[Json]) -> t.Optional[Json]:
    if one is None:
        return None
    meta = {key: value for key, value in one.get("metadata", {}).items() if key not in WRITTEN}
    return {**{key: value for key, value in one.items() if key != "status"}, "metadata": meta}


def is_ours(live: Json, manager: str) -> bool:
    """Tell whether a manager has applied an object, from what the server keeps of who wrote what."""
    kept = live.get("metadata", {}).get("managedFields") or ()
    return any(one.get("manager") == manager and one.get("operation") == "Apply" for one in kept)


def goes(live: Json) -> bool:
    """Tell whether an object is on its way out already."""
    return bool(live.get("metadata", {}).get("deletionTimestamp"))


def group_path(api_version: str) -> str:
    """Return where the kinds of a version are listed."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def resource_of(listed: Json, kind: str) -> t.Optional[t.Tuple[str, bool]]:
    """Return what a kind is called in paths, and whether it is in namespaces; None where it is not served."""
    for one in listed.get("resources") or ():
        if one.get("kind") == kind and "/" not in one.get("name", "/"):
            return str(one["name"]), bool(one.get("namespaced"))
    return None
