# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A request as the spec of a ResourceClaimTemplate (resource.k8s.io/v1), with the API's defaults. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_plugin._shared._base.dra.names import (
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
from gpu_plugin.model.quantity import MIB
from gpu_plugin.model.quantity import size as written

from . import cel
from .annotations import MODE, Annotations, field
from .errors import Refused, refused
from .published import MOST_SIZES, Published
from .requests import ALL, Request

Json = dict[str, Any]
NAME: Final = "gpu"  # of the claim's one request
CLASSES: Final = {GPU: GPU_CLASS, MIG: MIG_CLASS, SHARE: SHARE_CLASS}
PREFIX: Final = "hami-"
NAME_PATTERN: Final = re.compile(f"{PREFIX}[0-9a-f]{{24}}")
# Kubernetes tries a pod's claims in their order, and the kind that excludes most others has to be tried first.
ORDER: Final = (GPU, MIG, SHARE)
NO_OTHER: Final = "no node has another enforcement"
# The fields that a template of ours has, and adminAccess, which none has.
KEYS: Final = (
    *("spec", "devices", "requests", "name", "exactly", "firstAvailable", "adminAccess"),
    *("deviceClassName", "allocationMode", "count", "selectors", "cel", "expression", "capacity"),
    *("constraints", "matchAttribute", "config", "opaque", "driver", "parameters"),
)
WHOLE: Final = ("parameters", "requests")  # maps whose keys are ours; requests of a capacity


@dataclass(frozen=True)
class Template:
    """A template, whose name is made of its spec. ``order`` is the place of its claim among those of a pod."""

    name: str
    spec: Json
    order: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class _Alternative:
    """An alternative of a request: devices of one kind, of which ``memory`` MiB are asked for, by selectors."""

    name: str
    request: Request
    selectors: tuple[str, ...]
    memory: int


def build(
    request: Request,
    annotations: Annotations,
    published: Published,
    count_field: str,
    percent_field: str,
) -> Template:
    """Return the template of a request; the fields are for messages.

    Raises:
        Refused: if no node can have it.
    """
    alternatives = _asked(request, annotations, published, count_field, percent_field)
    subrequests = [_subrequest(alternative) for alternative in alternatives]
    asked: Json = {"exactly": subrequests[0]}
    if len(alternatives) > 1:
        named = zip(alternatives, subrequests, strict=True)
        asked = {"firstAvailable": [{"name": each.name, **part} for each, part in named]}
    devices: Json = {"requests": [{"name": NAME, **asked}]}
    if annotations.numa and request.count > 1 and not published.numa_nodes(request.kind):
        devices["constraints"] = [{"requests": [NAME], "matchAttribute": f"{DRIVER}/numaNode"}]
    shares = [f"{NAME}/{each.name}" for each in alternatives if each.request.kind == SHARE]
    if shares:
        meant = [NAME] if len(shares) == len(alternatives) else shares
        parameters = {
            "apiVersion": API_VERSION,
            "kind": SHARE_CONFIG,
            "priority": request.priority,
            "coreLimit": request.core_limit,
        }
        opaque = {"driver": DRIVER, "parameters": parameters}
        devices["config"] = [{"requests": meant, "opaque": opaque}]
    spec = {"spec": {"devices": devices}}
    return Template(name_of(spec), spec, (ORDER.index(request.kind), -request.count))


def unpublished(request: Request, annotations: Annotations, published: Published) -> bool:
    """Return whether nodes publish devices, and none that could be a share or stand for one."""
    there = bool(published.devices) and not published.enforcements
    return there and request.kind == SHARE and not _may_be_mig(request, annotations, published)


def too_large(request: Request, annotations: Annotations, published: Published) -> str:
    """Return why no published device can hold a request, empty if one can or none is published."""
    kinds = [request.kind]
    if request.kind == SHARE and _may_be_mig(request, annotations, published):
        kinds.append(MIG)
    if not any(device.kind in kinds for device in published.devices):
        return ""
    largest = max(published.largest(kind, annotations) for kind in kinds)
    if not largest:
        return "no node publishes a GPU that its annotations allow"
    if request.memory > largest:
        return f"it asks for {request.memory} MiB, and the largest device that it may have is of {largest} MiB"
    return ""


def name_of(spec: Json) -> str:
    """Return the name of a template with this spec."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:24]


def is_name(text: Any) -> bool:
    """Return whether a text is a name that name_of makes."""
    return isinstance(text, str) and NAME_PATTERN.fullmatch(text) is not None


def name_in(spec: Any) -> str:
    """Return the name of the template with this spec, without what a newer API server adds to it."""
    return name_of(_known(spec) if isinstance(spec, dict) else {})


def _known(value: Any) -> Any:
    if isinstance(value, list):
        return [_known(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item if key in WHOLE and isinstance(item, dict) else _known(item)
        for key, item in value.items()
        if key in KEYS
    }


def _selectors(request: Request, annotations: Annotations, published: Published) -> Iterator[str]:
    """Yield the selectors by annotations, and of shares by enforcement.

    HAMi's mode hami-core is any GPU without MIG.
    """
    mig = request.kind == MIG
    if annotations.use_types:
        yield cel.product(annotations.use_types, exclude=False)
    if annotations.avoid_types:
        yield cel.product(annotations.avoid_types, exclude=True)
    if annotations.use_uuids:
        yield cel.uuid(annotations.use_uuids, mig=mig, exclude=False)
    if annotations.avoid_uuids:
        yield cel.uuid(annotations.avoid_uuids, mig=mig, exclude=True)
    if request.kind != SHARE:
        return
    if request.count > 1:
        yield cel.enforcement(MPS, equal=False)
    only = _only(annotations)
    if only == MPS or (only == HAMI_CORE and only in published.enforcements):
        yield cel.enforcement(only)


def _only(annotations: Annotations) -> str:
    """Return the only mode that shares may have, empty if they may have either."""
    modes = [mode for mode in (MPS, HAMI_CORE) if annotations.takes(mode)]
    return modes[0] if len(modes) == 1 else ""


def _several(
    request: Request, annotations: Annotations, published: Published, count_field: str
) -> Refused | None:
    """Return why a container can't have several shares, None if it can."""
    why = "under mps a container has shares of one GPU only"
    if request.kind != SHARE or request.count == 1:
        return None
    if _only(annotations) == MPS:
        return refused(field(MODE), MPS, f"{why}, and {count_field} is {request.count}")
    there = published.enforcements
    if there - {MPS} or (published.devices and not there):  # no share at all is another warning
        return None
    hint = "ask for one GPU, for whole GPUs, or let nodes have another enforcement (gpuNode.dra.enforcement)"
    return refused(count_field, request.count, f"{why}, and {NO_OTHER}", hint)


def _may_be_mig(request: Request, annotations: Annotations, published: Published) -> bool:
    """Return whether MIG devices suit as well as shares, as on HAMi's nodes of either mode, and are published."""
    if request.kind != SHARE or not request.memory or not annotations.takes(MIG):
        return False
    return any(size >= request.memory for size in published.sizes(MIG, annotations))


def _asked(
    request: Request,
    annotations: Annotations,
    published: Published,
    count_field: str,
    percent_field: str,
) -> list[_Alternative]:
    """Return the alternatives of a request, of which the first that is available is taken."""
    problem = _several(request, annotations, published, count_field)
    mig = _may_be_mig(request, annotations, published)
    if problem and not mig:
        raise problem
    kinds = ([] if problem else [request]) + ([replace(request, kind=MIG)] if mig else [])
    result: list[_Alternative] = []
    for kind in kinds:
        result += _of_kind(kind, annotations, published, percent_field, MOST_SIZES - len(result))
    if len(result) > 1 and not result[0].name:
        result[0] = replace(result[0], name=request.kind)
    return result


def _of_kind(
    request: Request, annotations: Annotations, published: Published, percent_field: str, most: int
) -> list[_Alternative]:
    """Return one alternative, or one for each size of device and NUMA node, ``most`` at most.

    There is one for each node, and no constraint that devices match, as what is tried first and does not match
    stays consumed (LEAKS in _base/dra/versions.py).
    """
    nodes = published.numa_nodes(request.kind) if annotations.numa and request.count > 1 else []
    common = tuple(_selectors(request, annotations, published))
    each = max(most // max(len(nodes), 1), 1)
    sizes = list(_sizes(request, annotations, published, percent_field, each))
    places: list[tuple[str, tuple[str, ...]]]
    places = [(f"-numa-{node}", (cel.numa(node),)) for node in nodes] or [("", ())]
    alternatives = [
        _Alternative(f"{name}{suffix}".lstrip("-"), request, (*numa, size, *common), memory)
        for suffix, numa in places
        for name, size, memory in sizes
    ]
    return alternatives[:most]


def _sizes(
    request: Request, annotations: Annotations, published: Published, percent_field: str, most: int
) -> Iterator[tuple[str, str, int]]:
    """Yield for each size of device a name, a selector, and the MiB of it that are asked for."""
    if request.kind == GPU:
        yield "", cel.memory(NVIDIA, request.memory, least=True) if request.memory else "", 0
    elif request.kind == MIG:  # the smallest first; the last takes all larger ones
        sizes = [size for size in published.sizes(MIG, annotations) if size >= request.memory]
        sizes = sizes[: most - 1]
        yield from ((f"of-{size}", cel.memory(NVIDIA, size), 0) for size in sizes)
        least = max([request.memory, *sizes])
        yield "larger" if sizes else "", cel.memory(NVIDIA, least, least=True), 0
    elif request.memory or request.percent == ALL:
        yield "", "", request.memory
    else:
        sizes = published.sizes(SHARE, annotations, most)
        if not sizes:
            why = "no node publishes shares, so that it is not known how much memory that is"
            hint = "try again when nodes have joined, or ask for MiB"
            raise refused(percent_field, request.percent, why, hint)
        for size in sizes:
            yield f"of-{size}", cel.memory(DRIVER, size), max(size * request.percent // 100, 1)


def _subrequest(alternative: _Alternative) -> Json:
    request = alternative.request
    subrequest: Json = {
        "deviceClassName": CLASSES[request.kind],
        "allocationMode": "ExactCount",
        "count": request.count,
    }
    if expressions := list(filter(None, alternative.selectors)):
        subrequest["selectors"] = [{"cel": {"expression": each}} for each in expressions]
    amounts = {MEMORY: written(alternative.memory * MIB)} if alternative.memory else {}
    if request.kind == SHARE and request.cores:
        amounts[CORES] = str(request.cores)
    if amounts:
        subrequest["capacity"] = {"requests": amounts}
    return subrequest
