# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects of Kubernetes: of a text, of a cluster, and pods as the webhook would change them."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml
from gpu_plugin._shared._base.dra.names import (
    DRIVER,
    GPU,
    GPU_CLASS,
    MIG,
    MIG_CLASS,
    SHARE,
    SHARE_CLASS,
)
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.text.shown import cut
from gpu_plugin.cluster.access import Access
from gpu_plugin.config.sharing import GPU_RESOURCE

from ..lists import items

MOST_BYTES: Final = 64 << 20
PAGE: Final = 500
RESOURCE: Final = "/apis/resource.k8s.io/v1"
PATHS: Final = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "ResourceSlice": f"{RESOURCE}/resourceslices",
    "ResourceClaim": f"{RESOURCE}/resourceclaims",
    "ResourceClaimTemplate": f"{RESOURCE}/resourceclaimtemplates",
    "DeviceClass": f"{RESOURCE}/deviceclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
RIGHTS: Final = "allow this user to list nodes, pods, priorityclasses and what resource.k8s.io has"
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Json = Mapping[str, Any]


def _class(name: str, kind: str, **more: str) -> dict[str, Any]:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    spec = {"selectors": [{"cel": {"expression": expression}}], **more}
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


# The DeviceClasses that this collection's manifests have, for where there is no cluster.
CLASSES: Final[Mapping[str, Json]] = {
    GPU_CLASS: _class(GPU_CLASS, GPU, extendedResourceName=GPU_RESOURCE),
    MIG_CLASS: _class(MIG_CLASS, MIG),
    SHARE_CLASS: _class(SHARE_CLASS, SHARE),
}


def fetch(access: Access) -> Iterator[Json]:
    """Yield what the simulation needs of a cluster. ApiError: it can't be read."""
    for kind, path in PATHS.items():
        for one in items(access, f"listing {kind} objects", path, page=PAGE, rights=RIGHTS):
            yield {**one, "kind": kind}


def parse(text: str, source: str) -> list[Json]:
    """Return the objects of a text, those of lists one by one. NodeError: it holds something else."""
    hint = "give manifests such as kubectl apply takes"
    if len(text) > MOST_BYTES:
        raise NodeError(f"{source}: it is longer than {MOST_BYTES >> 20} MiB")
    try:
        return list(_flat(_documents(text), source, hint))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, LookupError) as error:
        raise NodeError(f"{source}: not valid YAML", cause=cut(str(error)), hint=hint) from error


def _documents(text: str) -> Iterable[Any]:
    if text.lstrip().startswith("{"):  # what kubectl writes as JSON is read much faster as that
        with contextlib.suppress(ValueError):
            return [json.loads(text)]
    return yaml.load_all(text, Loader=_LOADER)


def _flat(documents: Iterable[Any], source: str, hint: str) -> Iterator[Json]:
    for number, one in enumerate(documents):
        if one is None:
            continue
        if not isinstance(one, dict) or not isinstance(one.get("kind"), str):
            where = f"{source}: document {number + 1} is no object of Kubernetes"
            raise NodeError(where, cause="it has no kind", hint=hint)
        if one["kind"].endswith("List") and isinstance(one.get("items"), list):
            kind = one["kind"].removesuffix("List")
            named = {"kind": kind} if kind else {}
            yield from _flat(({**named, **item} for item in one["items"]), source, hint)
        else:
            yield one


def patched(manifest: Json, patch: Iterable[Json]) -> Json:
    """Return a manifest with the adds, removes and replaces of a JSON patch (RFC 6902) of our own."""
    changed = copy.deepcopy(dict(manifest))
    for step in patch:
        *parents, key = (
            part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]
        )
        place: Any = changed
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if step["op"] == "remove":
            del place[key]
        elif isinstance(place, list):
            place.append(step["value"])
        else:
            place[key] = step["value"]
    return changed
