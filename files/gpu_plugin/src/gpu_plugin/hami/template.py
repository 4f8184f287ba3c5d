# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A request as the spec of a ResourceClaimTemplate (resource.k8s.io/v1), with the API's defaults. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from .._shared._core.dra.names import (
    API_VERSION,
    CORES,
    DRIVER,
    GPU,
    GPU_CLASS,
    HAMI_CORE,
    MEMORY,
    MIG,
    MIG_CLASS,
    MPS,
    NVIDIA,
    SHARE,
    SHARE_CLASS,
    SHARE_CONFIG,
)
from .._shared._core.dra.quantities import MIB
from .._shared._core.dra.quantities import size as written
from . import cel
from .errors import refused
from .published import MOST_SIZES, Published
from .requests import ALL, Request
from .wishes import MODE, Wishes, field

Json = dict[str, Any]
NAME: Final = "gpu"  # of the claim's one request
CLASSES: Final = {GPU: GPU_CLASS, MIG: MIG_CLASS, SHARE: SHARE_CLASS}
PREFIX: Final = "hami-"
# The fields that a template of ours has, and adminAccess, which none has.
KEYS: Final = (
    *("spec", "devices", "requests", "name", "exactly", "firstAvailable", "adminAccess"),
    *("deviceClassName", "allocationMode", "count", "selectors", "cel", "expression", "capacity"),
    *("constraints", "matchAttribute", "config", "opaque", "driver", "parameters"),
)
WHOLE: Final = ("parameters", "requests")  # maps whose keys are ours; requests of a capacity


@dataclass(frozen=True)
class Template:
    """A template by its content: the name is made of the spec."""

    name: str
    spec: Json


def build(
    request: Request, wishes: Wishes, published: Published, count_field: str, percent_field: str
) -> Template:
    """Return the template of a request. Refused: no node could do it; the fields are for its message."""
    selectors = [*_wished(request, wishes), *_enforced(request, wishes, published, count_field)]
    devices: Json = {"requests": [_asked(request, selectors, wishes, published, percent_field)]}
    if wishes.numa and request.count > 1 and not published.numa_nodes(request.kind):
        devices["constraints"] = [{"requests": [NAME], "matchAttribute": f"{DRIVER}/numaNode"}]
    if request.kind == SHARE:
        devices["config"] = [{"requests": [NAME], "opaque": _opaque(request)}]
    spec = {"spec": {"devices": devices}}
    return Template(name_of(spec), spec)


def name_of(spec: Json) -> str:
    """Return the name of a template with this spec."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:24]


def name_in(spec: Any) -> str:
    """Return the name of the template that a spec was made by; what a newer API server adds is left out."""
    return name_of(_known(spec) if isinstance(spec, dict) else {})


def _known(value: Any) -> Any:
    if isinstance(value, list):
        return [_known(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: one if key in WHOLE and isinstance(one, dict) else _known(one)
        for key, one in value.items()
        if key in KEYS
    }


def _opaque(request: Request) -> Json:
    parameters = {"apiVersion": API_VERSION, "kind": SHARE_CONFIG}
    own = {"priority": request.priority, "coreLimit": request.core_limit}
    return {"driver": DRIVER, "parameters": {**parameters, **own}}


def _wished(request: Request, wishes: Wishes) -> Iterator[str]:
    mig = request.kind == MIG
    if wishes.use_types:
        yield cel.product(wishes.use_types, among=True)
    if wishes.avoid_types:
        yield cel.product(wishes.avoid_types, among=False)
    if wishes.use_uuids:
        yield cel.uuid(wishes.use_uuids, mig=mig, among=True)
    if wishes.avoid_uuids:
        yield cel.uuid(wishes.avoid_uuids, mig=mig, among=False)


def _enforced(
    request: Request, wishes: Wishes, published: Published, count_field: str
) -> Iterator[str]:
    """Yield on which enforcement shares may be. HAMi's mode hami-core is any card without MIG."""
    if request.kind != SHARE:
        return
    if request.count > 1:
        _check_several(request, wishes, published, count_field)
        yield cel.enforcement(MPS, equal=False)
    if wishes.mode == MPS or (wishes.mode == HAMI_CORE and HAMI_CORE in published.enforcements()):
        yield cel.enforcement(wishes.mode)


def _check_several(
    request: Request, wishes: Wishes, published: Published, count_field: str
) -> None:
    why = "under mps a container has shares of one GPU only"
    if wishes.mode == MPS:
        raise refused(field(MODE), MPS, f"{why}, and {count_field} is {request.count}")
    if not published.enforcements() - {MPS}:
        hint = "ask for one GPU, for whole GPUs, or let nodes have another enforcement (gpuNode.dra.enforcement)"
        raise refused(
            count_field, request.count, f"{why}, and no node has another enforcement", hint
        )


def _asked(
    request: Request, selectors: list[str], wishes: Wishes, published: Published, percent_field: str
) -> Json:
    """Return the claim's request: one way, or one for each size of device and NUMA node that there is.

    A way for each node, and no constraint that devices match, as what is tried first and does not match
    stays consumed (LEAKS in _core/dra/versions.py).
    """
    nodes = published.numa_nodes(request.kind) if wishes.numa and request.count > 1 else []
    most = max(MOST_SIZES // max(len(nodes), 1), 1)
    ways = [
        (f"{name}-numa-{node}".lstrip("-"), [cel.numa(node), size], memory)
        for node in nodes
        for name, size, memory in _ways(request, wishes, published, percent_field, most)
    ] or [
        (name, [size], memory)
        for name, size, memory in _ways(request, wishes, published, percent_field, most)
    ]
    made = [(name, _way(request, [*own, *selectors], memory)) for name, own, memory in ways]
    if len(made) == 1:
        return {"name": NAME, "exactly": made[0][1]}
    return {"name": NAME, "firstAvailable": [{"name": name, **way} for name, way in made]}


def _ways(
    request: Request, wishes: Wishes, published: Published, percent_field: str, most: int
) -> Iterator[tuple[str, str, int]]:
    """Yield for each way its name, a selector of the device's size, and the MiB of it that are asked for."""
    if request.kind == GPU:
        yield "", cel.memory(NVIDIA, request.memory, least=True) if request.memory else "", 0
    elif request.kind == MIG:
        yield from _profiles(request.memory, published.sizes(MIG, wishes), most)
    elif request.memory or request.percent == ALL:
        yield "", "", request.memory
    else:
        sizes = published.sizes(SHARE, wishes, most)
        if not sizes:
            why = "no node publishes shares, so that it is not known how much memory that is"
            hint = "try again when nodes have joined, or ask for MiB"
            raise refused(percent_field, request.percent, why, hint)
        for size in sizes:
            yield f"of-{size}", cel.memory(DRIVER, size), max(size * request.percent // 100, 1)


def _profiles(least: int, sizes: list[int], most: int) -> Iterator[tuple[str, str, int]]:
    """Yield the sizes of MIG devices that do, the smallest first; the last way takes all larger ones."""
    fitting = [size for size in sizes if size >= least][: most - 1]
    for size in fitting:
        yield f"of-{size}", cel.memory(NVIDIA, size), 0
    yield "larger" if fitting else "", cel.memory(NVIDIA, max([least, *fitting]), least=True), 0


def _way(request: Request, selectors: list[str], memory: int) -> Json:
    expressions = list(filter(None, selectors))
    way: Json = {
        "deviceClassName": CLASSES[request.kind],
        "allocationMode": "ExactCount",
        "count": request.count,
    }
    if expressions:
        way["selectors"] = [{"cel": {"expression": one}} for one in expressions]
    amounts = {MEMORY: written(memory * MIB)} if memory else {}
    if request.kind == SHARE and request.cores:
        amounts[CORES] = str(request.cores)
    if amounts:
        way["capacity"] = {"requests": amounts}
    return way
