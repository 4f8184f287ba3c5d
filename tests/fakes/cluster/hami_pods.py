# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods as HAMi's users write them, what nodes publish, and a patch applied as RFC 6902 says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_cluster.hami.errors import Refused
from gpu_cluster.hami.mutation import Mutation, mutate
from gpu_cluster.hami.published import Device, Published
from gpu_cluster.hami.settings import Settings
from gpu_plugin._shared._base.dra.names import MIG, MPS, NONE, SHARE

Json = dict[str, Any]
SETTINGS = Settings()
MPS_NODES = Published((Device(SHARE, 32768, "NVIDIA A100", "GPU-0", MPS),))
OTHER_NODES = Published((Device(SHARE, 32768, "NVIDIA A100", "GPU-0", NONE),))
MIG_NODES = Published(
    tuple(Device(MIG, size, "NVIDIA A100", "GPU-0") for size in (9728, 4864, 19968, 4864))
)
BOTH_NODES = Published((*MPS_NODES.devices, *MIG_NODES.devices))
ALL = "nvidia.com/"


def limits(**amounts: Any) -> Json:
    """Return resources as HAMi's names have them, gpumem_percentage for gpumem-percentage."""
    return {f"{ALL}{name.replace('_', '-')}": value for name, value in amounts.items()}


def pod(
    *containers: Json, annotations: Json | None = None, init: tuple[Json, ...] = (), **spec: Any
) -> Json:
    """Return a pod whose containers have these limits, or are these containers."""
    made: Json = {"containers": [_container(n, one) for n, one in enumerate(containers)], **spec}
    if init:
        made["initContainers"] = [_container(n, one, "init") for n, one in enumerate(init)]
    metadata = {"name": "p", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}


def _container(number: int, one: Json, kind: str = "main") -> Json:
    if "name" in one:
        return one
    return {"name": f"{kind}-{number}", "image": "cuda", "resources": {"limits": one}}


def applied(document: Json, patch: list[Json]) -> Json:
    """Return a document after a patch of add, remove and replace."""
    document = json.loads(json.dumps(document))
    for one in patch:
        *way, last = (
            word.replace("~1", "/").replace("~0", "~") for word in one["path"].split("/")[1:]
        )
        at: Any = document
        for word in way:
            at = at[int(word)] if isinstance(at, list) else at[word]
        if isinstance(at, list):
            assert one["op"] == "add"
            at.insert(len(at) if last == "-" else int(last), one["value"])
        elif one["op"] == "remove":
            del at[last]
        else:
            assert one["op"] == "add" or last in at
            at[last] = one["value"]
    return document


def changed(
    one: Json, published: Published = MPS_NODES, settings: Settings = SETTINGS
) -> tuple[Json, Mutation]:
    """Return a pod as it is admitted, and what was done."""
    found = mutate(one, settings, published)
    return applied(one, found.patch), found


def asked(one: Json, published: Published = MPS_NODES, settings: Settings = SETTINGS) -> Json:
    """Return the one request of the one claim of a pod."""
    (template,) = mutate(one, settings, published).templates
    (request,) = template.spec["spec"]["devices"]["requests"]
    return dict(request)


def exactly(one: Json, published: Published = MPS_NODES, settings: Settings = SETTINGS) -> Json:
    """Return what that request is, where there is one way."""
    return dict(asked(one, published, settings)["exactly"])


def expressions(way: Json) -> list[str]:
    return [one["cel"]["expression"] for one in way.get("selectors", [])]


def refusal(one: Json, published: Published = MPS_NODES, settings: Settings = SETTINGS) -> str:
    with pytest.raises(Refused) as told:
        mutate(one, settings, published)
    return str(told.value)
