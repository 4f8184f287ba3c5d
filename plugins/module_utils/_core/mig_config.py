# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""mig-parted configurations, version v1, and the layouts that every GPU offers by itself."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from .errors import InputError, NodeError
from .mig_profile import canonical, parse

Layout = t.Dict[str, int]
SPEC_KEYS = ("device-filter", "devices", "mig-enabled", "mig-devices")
SELECTOR = re.compile(r"GPU-[0-9a-fA-F-]{36}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
FILTER = re.compile(r"0[xX][0-9a-fA-F]{1,8}")
VENDOR = 0x10DE


@dataclasses.dataclass(frozen=True)
class GpuIdentity:
    """What a selection needs to know of a GPU."""

    index: int
    uuid: str
    pci_bus_id: str
    pci_device_id: int


@dataclasses.dataclass(frozen=True)
class Spec:
    """One entry of a layout: which GPUs, whether MIG is on, and the instances; devices None is all."""

    key: str
    filters: t.Tuple[int, ...]
    devices: t.Optional[t.Tuple[t.Union[int, str], ...]]
    enabled: bool
    layout: t.Tuple[t.Tuple[str, int], ...]

    def matches(self, gpu: GpuIdentity) -> bool:
        """Tell whether the entry is about this GPU."""
        if self.filters and (gpu.pci_device_id << 16 | VENDOR) not in self.filters:
            return False
        if self.devices is None:
            return True
        names = (gpu.index, gpu.uuid.lower(), gpu.pci_bus_id)
        return any(_normal(one) in names for one in self.devices)


def _normal(device: t.Union[int, str]) -> t.Union[int, str]:
    if isinstance(device, int):
        return device
    device = device.lower()
    return device if device.startswith("gpu-") else device[-12:].rjust(12, "0")


def select(config: t.Any, selected: str) -> t.Tuple[str, t.List[Spec]]:
    """Return the selected layout's name and entries; the whole configuration is checked."""
    if not isinstance(config, dict) or not config:
        raise InputError.of(
            "config", config, "a mig-parted configuration with version and mig-configs"
        )
    for key in config:
        if key not in ("version", "mig-configs"):
            raise InputError.of("config", key, "only the keys version and mig-configs")
    if config.get("version") != "v1":
        raise InputError.of("config.version", config.get("version"), "'v1'")
    layouts = config.get("mig-configs")
    if not isinstance(layouts, dict) or not layouts:
        raise InputError.of("config.mig-configs", layouts, "a mapping from names to lists")
    parsed = {
        name: _entries(f"config.mig-configs.{name}", specs) for name, specs in layouts.items()
    }
    if not selected and len(parsed) == 1:
        selected = next(iter(parsed))
    if selected not in parsed:
        known = ", ".join(sorted(parsed))
        raise InputError.of("selected", selected, f"one of: {known}")
    return selected, parsed[selected]


def _entries(key: str, specs: t.Any) -> t.List[Spec]:
    if not isinstance(specs, list) or not specs:
        raise InputError.of(key, specs, "a list with at least one entry")
    return [_entry(f"{key}[{at}]", spec) for at, spec in enumerate(specs)]


def _entry(key: str, spec: t.Any) -> Spec:
    if not isinstance(spec, dict):
        raise InputError.of(key, spec, "a mapping")
    for name in spec:
        if name not in SPEC_KEYS:
            raise InputError.of(key, name, f"only the keys {', '.join(SPEC_KEYS)}")
    enabled = spec.get("mig-enabled")
    if not isinstance(enabled, bool):
        raise InputError.of(f"{key}.mig-enabled", enabled, "true or false")
    layout = _layout(f"{key}.mig-devices", spec.get("mig-devices"), enabled)
    return Spec(
        key,
        _filters(f"{key}.device-filter", spec.get("device-filter")),
        _devices(f"{key}.devices", spec.get("devices")),
        enabled,
        tuple(sorted(layout.items())),
    )


def _filters(key: str, value: t.Any) -> t.Tuple[int, ...]:
    found = []
    for one in value if isinstance(value, list) else [value]:
        if one in (None, ""):
            continue
        if isinstance(one, str) and ":" in one:
            raise NodeError(
                f"{key}: {one!r} names a subsystem, which this release does not filter by"
            )
        if not isinstance(one, int) and not (isinstance(one, str) and FILTER.fullmatch(one)):
            raise InputError.of(key, one, "a PCI id such as 0x233010DE (device, then vendor)")
        found.append(one if isinstance(one, int) else int(one, 16))
    return tuple(found)


def _devices(key: str, value: t.Any) -> t.Optional[t.Tuple[t.Union[int, str], ...]]:
    if value == "all":
        return None
    expected = "'all', or a list of indices, UUIDs or PCI addresses"
    if not isinstance(value, list):
        raise InputError.of(key, value, expected)
    for one in value:
        number = isinstance(one, int) and not isinstance(one, bool) and one >= 0
        if not number and not (isinstance(one, str) and SELECTOR.fullmatch(one)):
            raise InputError.of(key, one, expected)
    return tuple(value)


def _layout(key: str, value: t.Any, enabled: bool) -> Layout:
    if not enabled:
        if value:
            raise InputError.of(key, value, "nothing, since mig-enabled is false")
        return {}
    if not isinstance(value, dict):
        raise InputError.of(key, value, "a mapping from profiles to counts")
    layout: t.Dict[str, int] = collections.Counter()
    for name, count in value.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise InputError.of(f"{key}.{name}", count, "a count of 0 or more")
        profile = parse(name, key)
        if profile.c != profile.g:
            raise NodeError(
                f"{key}: {name!r} asks for a compute instance smaller than its GPU instance",
                cause="this release makes one compute instance of full size in each GPU instance",
                hint=f"use {profile._replace(c=profile.g)}",
            )
        if count:
            layout[canonical(name, key)] += count
    return dict(layout)


def wanted(specs: t.Sequence[Spec], gpus: t.Sequence[GpuIdentity]) -> t.Dict[str, Spec]:
    """Return the entry that holds for each GPU, by UUID; the last that matches counts.

    A device that the node does not have is an error; a GPU that no entry matches is left out.
    """
    known = {value for gpu in gpus for value in (gpu.index, gpu.uuid.lower(), gpu.pci_bus_id)}
    for spec in specs:
        for device in spec.devices or ():
            if _normal(device) not in known:
                have = ", ".join(f"{gpu.index} ({gpu.uuid}, {gpu.pci_bus_id})" for gpu in gpus)
                raise InputError.of(f"{spec.key}.devices", device, f"a GPU of this node: {have}")
    return {gpu.uuid: spec for spec in specs for gpu in gpus if spec.matches(gpu)}


def generated(selected: str, offers: t.Mapping[str, int], slices: int) -> t.Optional[Layout]:
    """Return the layout of a generated name for a GPU, None where it means MIG off.

    ``offers`` maps the GPU's profiles to how often each fits; ``slices`` is its compute slices.
    """
    if selected == "all-disabled":
        return None
    if selected == "all-balanced":
        parts = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}.get(slices)
        plain: t.Dict[int, str] = {}
        for name in offers:
            profile = parse(name)
            if not profile.attributes and (
                profile.g not in plain or profile.gb < parse(plain[profile.g]).gb
            ):
                plain[profile.g] = name
        if parts is None or not all(g in plain for g in parts):
            raise NodeError(
                "all-balanced is not defined for this GPU", hint="give the layout in config"
            )
        return {plain[g]: count for g, count in parts.items()}
    name = selected[len("all-") :] if selected.startswith("all-") else ""
    for one, count in offers.items():
        if name in (one, one.replace("+", ".")):
            return {one: count}
    expected = ["all-disabled", "all-balanced", *(f"all-{one}" for one in sorted(offers))]
    raise InputError.of("selected", selected, f"one of: {', '.join(expected)}")
