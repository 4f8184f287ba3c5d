# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Extended resources of DeviceClasses, whose names are shared in a cluster. Pure.

kube-scheduler uses the newest of the classes that have a name. Once any of them is deleted or loses it, the scheduler
forgets the name until another of them is written again
(k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache of 1.36).
"""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError

Json = t.Dict[str, t.Any]
KIND = "DeviceClass"
NOT_YET = "~"  # sorts after each time


def extended_resource(device_class: t.Optional[Json]) -> str:
    """Return the extended resource of a class, or an empty text."""
    return str(((device_class or {}).get("spec") or {}).get("extendedResourceName") or "")


def rivals(
    live: t.Optional[Json], after: t.Optional[Json], classes: t.Iterable[Json]
) -> t.Tuple[Json, ...]:
    """Return the other classes with the present or the desired extended resource of a class."""
    names = {extended_resource(live), extended_resource(after)} - {""}
    own_name = (live or after or {}).get("metadata", {}).get("name")
    return tuple(
        device_class
        for device_class in classes
        if extended_resource(device_class) in names and device_class["metadata"]["name"] != own_name
    )


def holders(device_class: t.Optional[Json], classes: t.Iterable[Json]) -> t.List[Json]:
    """Return the classes that have the extended resource of a class, none if it has none."""
    name = extended_resource(device_class)
    return [other for other in classes if name and extended_resource(other) == name]


def check_name(live: t.Optional[Json], after: Json, classes: t.Sequence[Json]) -> None:
    """Refuse to take the extended resource of another class.

    Raises:
        NodeError: if another class has the name, and this one does not have it yet.
    """
    name = extended_resource(after)
    rival_names = ", ".join(_name(other) for other in holders(after, classes))
    if rival_names and extended_resource(live) != name:
        raise NodeError(
            f"DeviceClass {_name(after)} would take {name} from DeviceClass {rival_names}",
            cause="kube-scheduler gives pods that ask for it devices of the newest class alone",
            hint="set fractions_extended_resource to false, take extendedResourceName out of the other class, or set"
            " fractions_force to true to take it",
        )


def describe_rivalry(after: Json, live: t.Optional[Json], classes: t.Sequence[Json]) -> str:
    """Return a warning with the class that pods get devices of, or an empty text if it is the only one."""
    name, rivals_of_name = extended_resource(after), holders(after, classes)
    if not rivals_of_name:
        return ""
    # kube-scheduler uses the newest class: of those of one second, the first by name.
    by_name = sorted([live or after, *rivals_of_name], key=_name)
    newest = _name(
        max(by_name, key=lambda item: item["metadata"].get("creationTimestamp") or NOT_YET)
    )
    losers = sorted({_name(after), *map(_name, rivals_of_name)} - {newest})
    return (
        f"{name} is that of DeviceClass {newest}, which is newer than {', '.join(losers)}: pods that ask for it get no"
        " device of the others"
    )


def _name(device_class: Json) -> str:
    return str(device_class["metadata"]["name"])
