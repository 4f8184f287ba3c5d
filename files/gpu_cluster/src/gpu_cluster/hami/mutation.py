# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The changes of a pod that asks for HAMi's resources, as a JSON patch (RFC 6902). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_plugin._shared._base.dra.names import GPU, MPS, SHARE

from . import requests, template
from .annotations import Annotations, warn_of_unread
from .annotations import read as read_annotations
from .errors import refused
from .published import Published
from .requests import Request
from .settings import DEFAULT_SCHEDULER, Settings
from .template import Template

Json = Mapping[str, Any]
Patch = list[dict[str, Any]]
LONGEST_NAME: Final = 63
KINDS: Final = ("initContainers", "containers")
SHM: Final = "/dev/shm"
ZERO: Final = "0"
MOST_ASKING: Final = 64  # containers of a pod
SHARES_ISOLATE: Final = (
    "a privileged container has all GPUs of its node, whatever its pod was given"
)
NO_SCHEDULER: Final = (
    "a pod with a node's name is not scheduled, so that its claim would never be allocated"
)


@dataclass(frozen=True)
class Mutation:
    """A patch, the templates that it names and warnings for the user."""

    patch: Patch
    templates: tuple[Template, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A container: ``initContainers`` or ``containers``, its number, and itself."""

    kind: str
    number: int
    container: Json

    @property
    def field(self) -> str:
        return f"spec.{self.kind}[{self.number}]"

    @property
    def path(self) -> str:
        return f"/spec/{self.kind}/{self.number}/resources"

    def has_claim(self, names: frozenset[str]) -> bool:
        """Return whether the container has one of these claims of the pod."""
        claims = (self.container.get("resources") or {}).get("claims") or ()
        return any(claim.get("name") in names for claim in claims)

    @property
    def takes_turns(self) -> bool:
        """Return whether it has ended before the pod's own containers start."""
        return self.kind == "initContainers" and self.container.get("restartPolicy") != "Always"


def mutate(
    pod: Json, settings: Settings, published: Published, look: Callable[[], None] = lambda: None
) -> Mutation:
    """Return the changes of a pod.

    ``look`` is called before each container, and ends the work by what it raises.

    Raises:
        Refused: if it asks for what no node can have.
    """
    spec = pod.get("spec") or {}
    places = [
        _Place(kind, number, container)
        for kind in KINDS
        for number, container in enumerate(spec.get(kind) or ())
    ]
    scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER
    usual = {"op": "replace", "path": "/spec/schedulerName", "value": DEFAULT_SCHEDULER}
    patch: Patch = [usual] if scheduler in settings.schedulers else []
    keys = (pod.get("metadata") or {}).get("annotations") or {}
    warnings = [*warn_of_unread(keys, settings.names.all)]
    admitted, asking = _admitted_claims(spec), []
    for place in places:
        if place.has_claim(admitted):
            patch += _zero(place, settings)
            warnings += [
                f"{place.field}.resources.{part}[{name}] has no effect, as the container has a claim already"
                for part, name in _nonzero(place, settings)
            ]
        elif _mentions(place.container, settings):
            asking.append(place)
    if not asking:
        return Mutation(patch, warnings=tuple(warnings))
    _bounded(places, asking)
    for place in asking:
        warnings += requests.warn_of_unread(place.container, place.field, settings.names)
    if scheduler not in (DEFAULT_SCHEDULER, *settings.schedulers):
        text = f"spec.schedulerName: pods of {str(scheduler)[:LONGEST_NAME]} are left as they are"
        return Mutation([], warnings=(text,))
    annotations = read_annotations(keys)
    warnings += annotations.warnings
    claimed = []
    for place in asking:
        read = requests.read(place.container, place.field, annotations, settings)
        warnings += read.warnings if read else ()
        if read and not read.untouched:
            patch += _zero(place, settings)
            claimed += [(place, read.request)] if read.request else []
    _check(spec, places, [request for _place, request in claimed])
    granted = []
    for place, request in claimed:
        look()
        names, at = settings.names, f"{place.field}.resources.limits"
        fields = (f"{at}[{names.count}]", f"{at}[{names.percent}]")
        granted.append((place, template.build(request, annotations, published, *fields)))
    patch += _claims(spec, granted)
    templates = tuple({made.name: made for _place, made in granted}.values())
    warnings += [text for claim in claimed for text in _warnings(*claim, annotations, published)]
    return Mutation(patch, templates, tuple(warnings))


def _mentions(container: Json, settings: Settings) -> bool:
    """Return whether a container names HAMi's resources."""
    resources = container.get("resources") or {}
    return any(
        name in (resources.get(part) or {})
        for part in ("limits", "requests")
        for name in settings.names.all
    )


def _bounded(places: Sequence[_Place], asking: Sequence[_Place]) -> None:
    """Refuse what API servers refuse later, before it causes work: webhooks come before validation."""
    if len(asking) > MOST_ASKING:
        why = f"at most {MOST_ASKING} containers of a pod get GPUs"
        raise refused(f"spec.{asking[-1].kind}", len(asking), why)
    seen: set[str] = set()
    for place in places:
        name = str(place.container.get("name", ""))
        if name in seen:
            raise refused(f"{place.field}.name", name, "a pod has no name of a container twice")
        seen.add(name)


def _check(spec: Json, places: Sequence[_Place], claimed: Sequence[Request]) -> None:
    """Refuse a pod that can't have claims, if it would get any."""
    if not claimed:
        return
    if spec.get("nodeName"):
        hint = "choose the node by spec.nodeSelector"
        raise refused("spec.nodeName", spec["nodeName"], NO_SCHEDULER, hint)
    if all(claim.kind == GPU for claim in claimed):
        return
    for place in places:
        if (place.container.get("securityContext") or {}).get("privileged") is True:
            at = f"{place.field}.securityContext.privileged"
            raise refused(at, True, SHARES_ISOLATE, "ask for whole GPUs, or do without privileged")


def _admitted_claims(spec: Json) -> frozenset[str]:
    """Return the names of the pod's claims that an earlier review has added."""
    return frozenset(
        str(claim.get("name"))
        for claim in spec.get("resourceClaims") or ()
        if template.is_name(claim.get("resourceClaimTemplateName"))
    )


def _zero(place: _Place, settings: Settings) -> Patch:
    """Return the patch that sets HAMi's resources to 0.

    LimitRanger and other admission plugins, which run again after the webhook, give missing resources their defaults,
    and refuse a pod without a limit if there is a maximum.
    """
    return [
        {"op": "replace", "path": f"{place.path}/{part}/{escaped(name)}", "value": ZERO}
        for part, name in _nonzero(place, settings)
    ]


def _nonzero(place: _Place, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the amounts of HAMi's resources that are not 0: limits or requests, and the resource."""
    resources = place.container.get("resources") or {}
    for part in ("limits", "requests"):
        for name in settings.names.all:
            if str((resources.get(part) or {}).get(name, ZERO)) != ZERO:
                yield part, name


def _warnings(
    place: _Place, request: Request, annotations: Annotations, published: Published
) -> Iterator[str]:
    """Yield warnings for a container with a share, by the published devices."""
    if template.unpublished(request, annotations, published):
        yield f"{place.field} waits: no node publishes shares, and none a MIG device that it may have"
    elif too_large := template.too_large(request, annotations, published):
        yield f"{place.field} waits: {too_large}"
    if request.kind != SHARE or not annotations.takes(MPS) or MPS not in published.enforcements:
        return
    for volume_mount in place.container.get("volumeMounts") or ():
        if str(volume_mount.get("mountPath")).rstrip("/") == SHM:
            yield (
                f"{place.field}.volumeMounts: under {MPS} {SHM} is the one of all shares of the GPU,"
                f" in the place of the volume {str(volume_mount.get('name'))[:LONGEST_NAME]}"
            )


def _claims(spec: Json, templates: Sequence[tuple[_Place, Template]]) -> Patch:
    """Return the patch that gives containers their claims, each its own.

    Init containers have ended before another starts, so that one with the same request shares its claim.
    """
    taken = {str(claim.get("name")) for claim in spec.get("resourceClaims") or ()}
    tried: dict[str, int] = {}  # numbers that were tried, by container
    free: dict[str, str] = {}  # names of claims by template, for init containers that take turns
    names: dict[int, str] = {}
    added: list[dict[str, str]] = []
    order = {granted.name: granted.order for _place, granted in templates}
    for place, granted in sorted(templates, key=lambda pair: pair[0].takes_turns):
        if not (place.takes_turns and granted.name in free):
            name = _name(str(place.container.get("name", "")), taken, tried)
            taken.add(name)
            added.append({"name": name, "resourceClaimTemplateName": granted.name})
            if place.takes_turns or place.kind == "containers":  # a sidecar runs on beside them
                free.setdefault(granted.name, name)
        names[id(place)] = free[granted.name] if place.takes_turns else added[-1]["name"]
    added.sort(key=lambda claim: order[claim["resourceClaimTemplateName"]])
    patch = _appended("/spec/resourceClaims", spec.get("resourceClaims"), added)
    for place, _template in templates:
        held = (place.container.get("resources") or {}).get("claims")
        patch += _appended(f"{place.path}/claims", held, [{"name": names[id(place)]}])
    return patch


def _appended(path: str, held: Any, added: list[dict[str, str]]) -> Patch:
    if not added:
        return []
    if not held:
        return [{"op": "add", "path": path, "value": added}]
    return [{"op": "add", "path": f"{path}/-", "value": value} for value in added]


def _name(container: str, taken: set[str], tried: dict[str, int]) -> str:
    """Return a claim's name in the pod: the container's, as far as it fits and is free."""
    usual = f"gpu-{container}"
    if len(usual) <= LONGEST_NAME and usual not in taken:
        return usual
    while True:
        number = tried.get(container, 0)
        tried[container] = number + 1
        digest = hashlib.sha256(f"{container}/{number}".encode()).hexdigest()[:8]
        name = f"{usual[: LONGEST_NAME - 9]}-{digest}"
        if name not in taken:
            return name


def escaped(key: str) -> str:
    """Return a key as written in a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
