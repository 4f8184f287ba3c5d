# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Words in which scenes are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

import yaml

from tests.fakes.kubernetes.recorded.steps import ADMIN, FORGET, MERGE, WITHOUT, Json, Step
from tests.fakes.kubernetes.standin.resources import collection
from tests.support.paths import REPOSITORY

MANIFESTS = REPOSITORY / "files/kubernetes"
NODE, OTHER = "node-1", "node-2"
KUBELET, NEIGHBOUR = f"node:{NODE}", f"node:{OTHER}"
DEFAULT = "/api/v1/namespaces/default"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def get(who: str, path: str, *show: str, **more: Any) -> Step:
    """Read an object or a list; ``where`` is the query."""
    return Step(who, "GET", _with(path, more.pop("where", {})), show=show, **more)


def post(who: str, path: str, body: Any, *show: str, **more: Any) -> Step:
    """Make an object."""
    return Step(who, "POST", _with(path, more.pop("where", {})), body, show=show, **more)


def put(who: str, path: str, of: str, change: Json, *show: str, **more: Any) -> Step:
    """Replace an object by one of before, with a change."""
    return Step(who, "PUT", path, {"$of": of, "$with": change}, show=show, **more)


def patch(who: str, path: str, body: Any, *show: str, kind: str = MERGE, **more: Any) -> Step:
    """Change an object."""
    return Step(who, "PATCH", _with(path, more.pop("where", {})), body, kind, show=show, **more)


def delete(who: str, path: str, body: Json | None = None, *show: str, **more: Any) -> Step:
    """Remove an object, or a collection."""
    return Step(who, "DELETE", _with(path, more.pop("where", {})), body, show=show, **more)


def watch(who: str, path: str, events: int, *show: str, **more: Any) -> Step:
    """Follow a collection until so many events have come; 0 where it is refused."""
    where = {"watch": "true", "timeoutSeconds": "120", **more.pop("where", {})}
    if isinstance(during := more.pop("during", None), Step):
        more["during"] = during.told()
    return Step(who, "GET", _with(path, where), show=show, events=events, **more)


def forget() -> Step:
    """Let all versions but the present one be forgotten."""
    return Step("", FORGET, "")


def without(gate: str) -> Step:
    """Let a feature gate be off."""
    return Step("", WITHOUT, gate)


def _with(path: str, query: Json) -> str:
    return f"{path}?{urlencode(query, safe='$,=/.!')}" if query else path


def made(*objects: Json, **more: Any) -> list[Step]:
    """Make objects as an administrator."""
    return [post(ADMIN, place(one), one, **more) for one in objects]


def place(one: Json) -> str:
    """Return the collection that an object belongs to."""
    return collection(one["apiVersion"], one["kind"], one["metadata"].get("namespace", "default"))


def manifest(name: str, node: str = NODE, without: Iterable[str] = ()) -> list[Json]:
    """Return the objects of a manifest that the project ships, but those of some kinds."""
    found = yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text().replace("NODE", node))
    items = found["items"] if found["kind"] == "List" else [found]
    return [one for one in items if one["kind"] not in without]


def named(kind: str, name: str, version: str = "v1", space: str = "", **more: Any) -> Json:
    """Return an object with a name."""
    meta = {"name": name, **({"namespace": space} if space else {}), **more.pop("meta", {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def node(name: str = NODE, **more: Any) -> Json:
    """Return a node."""
    return named("Node", name, **more)


def space(name: str) -> Json:
    """Return a namespace."""
    return named("Namespace", name)


def pod(name: str, on: str = "", **spec: Any) -> Json:
    """Return a pod, on a node where one is named."""
    container = {"name": "main", "image": "app", **spec.pop("container", {})}
    bound = {"nodeName": on} if on else {}
    meta = spec.pop("meta", {})
    return named("Pod", name, space=spec.pop("space", "default"), meta=meta,
                 spec={"containers": [container], **bound, **spec})  # fmt: skip


def account(name: str = "default", space: str = "default") -> Json:
    """Return a ServiceAccount; a pod of a namespace needs its default one."""
    return named("ServiceAccount", name, space=space)
