# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The LimitRanges and ResourceQuotas of a namespace, applied to HAMi's resources.

A pod that gets claims has these resources at 0, so that Kubernetes applies no maximum and counts no quota. Both are
applied here to what the pod asked for, or the pod is refused with a hint to what counts claims. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_plugin.model import quantity
from gpu_plugin.model.quantity import Number

from .errors import refused
from .mutation import KINDS
from .settings import Settings
from .template import Template

# https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-for-extended-resources, and for device classes.
REQUESTS: Final = "requests."
DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Amount:
    """An amount of a container, in Kubernetes' units. ``field`` is where it is in the pod."""

    field: str
    value: Number


def check_limit_ranges(pod: Json, settings: Settings, limit_ranges: Iterable[Json]) -> None:
    """Refuse a pod that asks for more than LimitRanges allow, as LimitRanger does.

    Raises:
        Refused: if an amount is above a maximum, or there is a minimum, which no pod with claims has.
    """
    for limit_range in limit_ranges:
        name = f"LimitRange {_name(limit_range)}"
        for item in (limit_range.get("spec") or {}).get("limits") or ():
            for resource in settings.names.all:
                amounts = list(_amounts(pod, resource))
                if not amounts:
                    continue
                if quantity.whole((item.get("min") or {}).get(resource, "0")) != 0:
                    raise refused(
                        amounts[0].field,
                        amounts[0].value,
                        f"{name} has a minimum of it, and a pod with a claim has 0",
                        f"take {resource} out of the minimum",
                    )
                maximum = (item.get("max") or {}).get(resource)
                if maximum is not None:
                    total = _pod_total(pod, resource)
                    _check_maximum(amounts, total, item.get("type"), str(maximum), name)


def _check_maximum(
    amounts: Sequence[Amount], total: Number, scope: Any, maximum: str, name: str
) -> None:
    bound = quantity.parse(maximum)
    for amount in amounts:
        if scope == "Container" and amount.value > bound:
            raise refused(amount.field, amount.value, f"{name} allows at most {maximum}")
    if scope == "Pod" and total > bound:
        why = f"{name} allows at most {maximum} for a pod, and this pod asks for {total}"
        raise refused(amounts[0].field, amounts[0].value, why)


def check_quotas(
    pod: Json,
    settings: Settings,
    templates: Iterable[Template],
    quotas: Iterable[Json],
    device_classes: Iterable[Json],
) -> None:
    """Refuse a pod whose claims a quota of its resources doesn't count.

    Kubernetes counts the devices of a class in ``CLASS.deviceclass.resource.k8s.io/devices``, and those of the class
    of an extended resource in ``requests.NAME`` too.

    Raises:
        Refused: if a quota names one of HAMi's resources that these claims are not counted for.
    """
    classes = {
        alternative["deviceClassName"]
        for template in templates
        for request in template.spec["spec"]["devices"]["requests"]
        for alternative in request.get("firstAvailable") or [request["exactly"]]
    }
    specs = [(_name(quota), quota.get("spec") or {}) for quota in quotas]
    limited = {  # with scopes a quota counts no claim
        name
        for _quota, spec in specs
        if not (spec.get("scopes") or spec.get("scopeSelector"))
        for name in classes
        if name + DEVICES in (spec.get("hard") or {})
    }
    extended = {
        _name(device_class)
        for device_class in device_classes
        if (device_class.get("spec") or {}).get("extendedResourceName") == settings.names.count
    }
    names = settings.names
    for quota, spec in specs:
        for resource in names.all:
            uncounted = classes - limited - extended if resource == names.count else classes
            if uncounted and REQUESTS + resource in (spec.get("hard") or {}):
                amount = next(amount for name in names.all for amount in _amounts(pod, name))
                counting = ", ".join(name + DEVICES for name in sorted(uncounted))
                place = f"in the place of {REQUESTS}{resource}"
                if resource == names.count:
                    place = "in a quota without scopes, too"
                why = f"ResourceQuota {quota} limits {REQUESTS}{resource}, which counts no claims"
                raise refused(amount.field, amount.value, why, f"limit {counting} {place}")


def _name(item: Json) -> str:
    return str((item.get("metadata") or {}).get("name", ""))


def _amounts(pod: Json, resource: str) -> Iterator[Amount]:
    """Yield the amounts of a resource that the pod's containers ask for."""
    for kind in KINDS:
        for number, container in enumerate((pod.get("spec") or {}).get(kind) or ()):
            for part in ("limits", "requests"):
                value = ((container.get("resources") or {}).get(part) or {}).get(resource)
                if value is not None:
                    field = f"spec.{kind}[{number}].resources.{part}[{resource}]"
                    yield Amount(field, quantity.of(value, field))
                    break


def _pod_total(pod: Json, resource: str) -> Number:
    """Return the most that a pod needs of a resource at once.

    Init containers take turns, at the same time as the sidecars before them.
    """
    spec = pod.get("spec") or {}
    running: Number = 0
    peak: Number = 0
    for container in spec.get("initContainers") or ():
        amount = _value(container, resource)
        peak = max(peak, running + amount)
        if container.get("restartPolicy") == "Always":
            running += amount
    containers = sum(_value(container, resource) for container in spec.get("containers") or ())
    return max(peak, running + containers)


def _value(container: Json, resource: str) -> Number:
    resources = container.get("resources") or {}
    values = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return quantity.of(values.get(resource, 0), resource)
