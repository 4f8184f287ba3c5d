# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A MIG layout against what the PCI bus shows, before there is a driver. It refuses only what no driver could do."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.gpu import Gpu, PciDevice
from ..._base.mig_profile import parse, shapes
from ..._mig.config import Declared, Device, Selection, Spec, generated
from ..._mig.products import Product, never, product
from ..._mig.search import arrange
from ..._settings.rules import IN_MIG
from ..._settings.rules import parse as parse_rules

Gpus = t.Sequence[PciDevice]
OFF = "all-disabled"


def check(selection: Selection, gpus: Gpus) -> None:
    """Refuse a layout that the node's GPUs can't have. InputError or NodeError in the options' names."""
    if selection.specs is None:
        _check_generated(selection.label, gpus)
    for spec in selection.specs or ():
        for device in spec.devices or ():
            _check_there(spec, device, gpus)
        if spec.enabled:
            _check_fits(spec, gpus)


def selection(options: t.Mapping[str, t.Any]) -> Selection:
    """Return the layout that options of MIG ask for."""
    return Declared(options["config"], options["selected"], options["by_label"]).selection()


def partitions(options: t.Mapping[str, t.Any]) -> t.Callable[[Gpu], t.Optional[bool]]:
    """Return what tells of a GPU whether these options of MIG bring it into MIG mode or out of it, None for neither."""
    if options["state"] != "present":
        return lambda _gpu: None
    selected = selection(options)
    if selected.specs is None:
        return lambda gpu: selected.label != OFF if gpu.mig_capable else None

    def brings_into_mig(gpu: Gpu) -> t.Optional[bool]:
        modes = [spec.enabled for spec in selected.specs or () if spec.matches(gpu)]
        return any(modes) if modes else None

    return brings_into_mig


def check_settings(options: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
    """Refuse a setting of all GPUs that MIG mode rules out, where a layout has no GPU without it. InputError.

    ``options`` are those of modules, by their names.
    """
    mig, settings = options.get("mig"), options.get("settings")
    if not mig or not settings or {mig["state"], settings["state"]} != {"present"}:
        return
    label, specs = selection(mig)
    sure = specs is None or (
        bool(specs) and all(spec.enabled and not spec.filters for spec in specs)
    )
    if not sure or label == OFF:
        return
    rules = parse_rules(settings["rules"])
    for name, value in IN_MIG.items():
        last = [rule for rule in rules if name in rule.settings][-1:]
        for last_rule in last:
            if not last_rule.match and last_rule.settings[name] != value:
                expected = f"{value}, or none, as GPUs of this node are to be in MIG mode"
                raise InputError.of(f"{last_rule.key}.{name}", last_rule.settings[name], expected)


def _check_generated(label: str, gpus: Gpus) -> None:
    if label == OFF:
        return
    if all(never(gpu.device_id) for gpu in gpus):
        expected = "nothing for this node, as none of its GPUs can be partitioned"
        raise InputError.of("selected", label, expected)
    products = {product(gpu.device_id) for gpu in gpus if not never(gpu.device_id)}
    for known in products if len(products) == 1 else ():
        if known is not None and not _has_more(label.replace("gb.", "gb+"), known):
            generated(label, known.profiles)


def _check_there(spec: Spec, device: Device, gpus: Gpus) -> None:
    """Refuse an index or an address that is not on the bus; what UUIDs there are, only the driver knows."""
    if isinstance(device, int):
        there = device < len(gpus)
    elif device.lower().startswith("gpu-"):
        return
    else:
        # The domain may be written with four digits or eight.
        address = device.lower().zfill(16)
        there = any(gpu.address.lower().zfill(16) == address for gpu in gpus)
    if not there:
        have = ", ".join(f"{index} ({gpu.address})" for index, gpu in enumerate(gpus))
        expected = f"a GPU of this node: {have or 'it has none'}"
        raise InputError.of(f"{spec.key}.devices", device, expected)


def _check_fits(spec: Spec, gpus: Gpus) -> None:
    """Refuse a layout that fits none of the GPUs that the entry may be about.

    Those are not asked by their devices: the driver may count from another one.
    """
    numbers = [number for number in spec.filters if not isinstance(number, str)]
    if spec.filters and len(numbers) == len(spec.filters):
        device_ids = {number >> 16 for number, _subsystem in numbers}
        gpus = [gpu for gpu in gpus if gpu.device_id in device_ids]
    errors = [_error(spec, gpu) for gpu in gpus]
    if errors and all(errors):
        raise t.cast(NodeError, errors[0])


def _error(spec: Spec, gpu: PciDevice) -> t.Optional[NodeError]:
    if never(gpu.device_id):
        message = f"this GPU can't be partitioned ({gpu.address})"
        return InputError.of(f"{spec.key}.mig-enabled", True, f"false, as {message}")
    known = product(gpu.device_id)
    if known is None or any(_has_more(name, known) for name in spec.layout):
        return None
    try:
        arrange(known.profiles, (), shapes(spec.layout))
    except NodeError as error:
        key = f"{spec.key}.mig-devices"
        return NodeError(f"{key}: {known.name}: {error.message}", cause=error.cause, key=key)
    return None


def _has_more(name: str, known: Product) -> bool:
    """Return whether a profile has attributes that other drivers may give the product's GPUs."""
    try:
        profile = parse(name[len("all-") :] if name.startswith("all-") else name)
    except InputError:
        return False
    whole = str(profile._replace(c=profile.g))
    return bool(profile.attributes) and whole not in {profile.name for profile in known.profiles}
