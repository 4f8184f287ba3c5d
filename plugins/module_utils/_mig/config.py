# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG layouts: mig-parted configurations, version v1, checked strictly, and layouts generated from a GPU's profiles."""

from __future__ import annotations

import collections
import contextlib
import json
import re
import typing as t

from .._base.errors import InputError, NodeError, readable
from .._base.gpu import NVIDIA, GiProfile, Gpu, NvmlError, product_key
from .._base.mig_profile import canonical, parse, shapes
from .._base.text import json_data
from .._base.text.config_map import unwrap_hint
from .._base.text.json_data import is_whole
from .._base.text.shown import cut
from .plan import GpuState, about
from .search import room

Layout = t.Dict[str, int]
Target = t.Tuple[bool, Layout]  # MIG on or off, and how many instances of each profile
Device = t.Union[int, str]
Filter = t.Union[str, t.Tuple[int, t.Optional[int]]]
SPEC_KEYS = ("device-filter", "devices", "mig-enabled", "mig-devices")
SELECTOR = re.compile(r"GPU-[0-9a-fA-F-]{36}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
PRODUCT = re.compile(r"[A-Za-z][\w .()/-]+")
FILTER_FORM = (
    "a PCI id such as 0x233010DE (device, then vendor 10DE), 0x233010DE:0x16C110DE with the subsystem, "
    "or a product name such as A100-SXM4-40GB"
)
MOST = 64  # instances of a profile; GPUs have eight slices at most
# Instances by slices, for GPUs of so many slices.
BALANCED: t.Dict[int, t.Dict[int, int]] = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}

MOST_NAMES = 500  # characters of names to choose from
FORMS = "all-disabled, all-balanced or all-<profile>, such as all-1g.10gb"


class Spec(t.NamedTuple):
    """One entry of a layout: which GPUs, whether MIG is on, and the instances; devices None is all."""

    key: str
    filters: t.Tuple[Filter, ...]
    devices: t.Optional[t.Tuple[Device, ...]]
    enabled: bool
    layout: Layout

    def matches(self, gpu: Gpu) -> bool:
        """Return whether the entry is about this GPU."""
        if self.filters and not any(_passes(gpu, device_filter) for device_filter in self.filters):
            return False
        return self.devices is None or any(_is_device(gpu, device) for device in self.devices)


def _passes(gpu: Gpu, device_filter: Filter) -> bool:
    if isinstance(device_filter, str):
        return product_key(device_filter) == product_key(gpu.name)
    device, subsystem = device_filter
    is_device = device == gpu.pci_device_id << 16 | NVIDIA
    return is_device and subsystem in (None, gpu.pci_subsystem_id)


def _name(device: Device) -> str:
    text = str(device).lower()
    return text if text.startswith("gpu-") else text[-12:]


def _is_device(gpu: Gpu, device: Device) -> bool:
    if isinstance(device, int):
        return device == gpu.index
    device = device.lower()
    if device.startswith("gpu-"):
        return device == gpu.uuid.lower()
    return device[-12:] == gpu.pci_bus_id and not device[:-12].strip("0")


def select(config: t.Any, selected: str) -> t.Tuple[str, t.Optional[t.List[Spec]]]:
    """Return the selected layout's name and entries; the whole configuration is checked.

    The entries are None if the name is a generated one (``all-...``) that the configuration does not have. Besides the
    whole file, its ``mig-configs`` or one list of entries may be given.
    """
    if isinstance(config, list):
        specs = _entries("config", config)
        if not selected:
            return "config", specs
        if not selected.startswith("all-"):
            expected = f"nothing for the configuration, which is one list of entries, or {FORMS}"
            raise InputError.of("selected", selected, expected)
        check_name(selected)
        return selected, None
    key, layouts = _layouts(config)
    parsed = {}
    for name, specs in layouts.items():
        if not isinstance(name, str) or not name:
            raise InputError.of(key, name, "names of layouts as texts (quote it)")
        parsed[name] = _entries(f"{key}.{name}", specs)
    if not selected and len(parsed) == 1:
        selected = next(iter(parsed))
    if selected in parsed:
        return selected, parsed[selected]
    if selected.startswith("all-"):
        check_name(selected, parsed)
        return selected, None
    have = cut(", ".join(sorted(parsed)), MOST_NAMES)
    raise InputError.of("selected", selected, f"one of: {have}")


def names(config: t.Any) -> t.List[str]:
    """Return the names of a configuration's layouts; none if it is one list of entries, or empty."""
    if not isinstance(config, dict) or not config:
        return []
    return [name for name in _layouts(config)[1] if isinstance(name, str)]


def _layouts(config: t.Any) -> t.Tuple[str, t.Dict[t.Any, t.Any]]:
    if not isinstance(config, dict) or not config:
        expected = "a mig-parted configuration with version and mig-configs, its mig-configs, or a list of entries"
        raise InputError.of("config", config, expected)
    if hint := unwrap_hint(config):
        raise InputError.of("config", list(config), f"the layouts; {hint}")
    if "version" not in config and "mig-configs" not in config:
        return "config", config
    for key in config:
        if key not in ("version", "mig-configs"):
            raise InputError.of("config", key, "only the keys version and mig-configs")
    if config.get("version") != "v1":
        raise InputError.of("config.version", config.get("version"), "'v1'")
    layouts = config.get("mig-configs")
    if not isinstance(layouts, dict) or not layouts:
        raise InputError.of("config.mig-configs", layouts, "a mapping from names to lists")
    return "config.mig-configs", layouts


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
    filters = spec.get("device-filter")
    filters = filters if isinstance(filters, list) else [filters]
    return Spec(
        key,
        tuple(_filter(f"{key}.device-filter", text) for text in filters if text not in (None, "")),
        _devices(f"{key}.devices", spec.get("devices")),
        enabled,
        layout,
    )


def _filter(key: str, value: t.Any) -> Filter:
    if isinstance(value, str) and PRODUCT.fullmatch(value):
        return value
    if is_whole(value) or isinstance(value, str):
        with contextlib.suppress(ValueError):
            device, colon, subsystem = str(value).partition(":")
            device_id, subsystem_id = int(device, 0), int(subsystem, 0) if colon else None
            if device_id & 0xFFFF == NVIDIA and not (device_id | (subsystem_id or 0)) >> 32:
                return device_id, subsystem_id
    raise InputError.of(key, value, FILTER_FORM)


def _devices(key: str, value: t.Any) -> t.Optional[t.Tuple[Device, ...]]:
    if value == "all":
        return None
    expected = "'all', or a list of indices, UUIDs or PCI addresses"
    if not isinstance(value, list):
        raise InputError.of(key, value, expected)
    for index in value:
        number = is_whole(index) and index >= 0
        if not number and not (isinstance(index, str) and SELECTOR.fullmatch(index)):
            raise InputError.of(key, index, expected)
    return tuple(value)


def _layout(key: str, value: t.Any, enabled: bool) -> Layout:
    if not enabled:
        if value:
            raise InputError.of(key, value, "nothing, since mig-enabled is false")
        return {}
    if not isinstance(value, dict) or len(value) > MOST:
        expected = "a mapping from profiles to counts, {} for no instance"
        raise InputError.of(key, value, expected)
    layout: t.Dict[str, int] = collections.Counter()
    for name, count in value.items():
        if not is_whole(count) or not 0 <= count <= MOST:
            raise InputError.of(f"{key}.{name}", count, f"a count of 0 or more, up to {MOST}")
        if count:
            layout[canonical(name, key)] += count
    if value and not layout:
        raise InputError.of(key, value, "at least one count above 0, or {} for no instance")
    shapes(layout, key)
    return layout


def entries_by_gpu(specs: t.Sequence[Spec], gpus: t.Sequence[Gpu]) -> t.Dict[str, Spec]:
    """Return the last entry that matches each GPU, by UUID; a GPU that no entry matches is left out.

    Raises:
        InputError: if an entry has a device that the node does not have.
    """
    for spec in specs:
        for device in spec.devices or ():
            if not any(_is_device(gpu, device) for gpu in gpus):
                have = ", ".join(f"{gpu.index} ({gpu.uuid}, {gpu.pci_bus_id})" for gpu in gpus)
                expected = f"a GPU of this node: {have or 'it has none'}"
                raise InputError.of(f"{spec.key}.devices", device, expected)
    return {gpu.uuid: spec for spec in specs for gpu in gpus if spec.matches(gpu)}


def check_name(selected: str, known: t.Iterable[str] = ()) -> None:
    """Refuse a name that can't be a generated one; ``known`` are names that would have been valid too."""
    names = ", ".join(filter(None, (cut(", ".join(sorted(known)), MOST_NAMES), FORMS)))
    if selected in ("all-disabled", "all-balanced"):
        return
    if not selected.startswith("all-"):
        raise InputError.of("selected", selected, names)
    try:
        profile = parse(selected[len("all-") :].replace("gb.", "gb+"))
    except InputError:
        raise InputError.of("selected", selected, names) from None
    if profile.c != profile.g:
        expected = "a profile without a c part: not supported by this release"
        raise InputError.of("selected", selected, expected)


def generated(selected: str, profiles: t.Sequence[GiProfile]) -> t.Optional[Layout]:
    """Return the layout of a generated name for a GPU with these profiles; None means MIG off."""
    if selected == "all-disabled":
        return None
    if selected == "all-balanced":
        return _balanced(profiles)
    name = selected[len("all-") :] if selected.startswith("all-") else ""
    for profile in profiles:
        # mig-parted writes a point for the plus, since labels of Kubernetes cannot hold one.
        if name in (profile.name, profile.name.replace("+", ".")):
            return {profile.name: room(profile)}
    offered = sorted(f"all-{profile.name}" for profile in profiles)
    names = ", ".join(["all-disabled", "all-balanced", *offered])
    raise InputError.of("selected", selected, f"one of: {names}")


def _balanced(profiles: t.Sequence[GiProfile]) -> Layout:
    # Of two profiles with as many slices, the one with less memory leaves room for others.
    parsed = [parse(profile.name) for profile in profiles]
    parsed.sort(key=lambda profile: profile.gb, reverse=True)
    plain = {profile.g: str(profile) for profile in parsed if not profile.attributes}
    parts = BALANCED.get(max((profile.slices for profile in profiles), default=0), {})
    if not parts or not all(slices in plain for slices in parts):
        hint = "give the layout in config"
        raise NodeError("all-balanced is not defined for this GPU", hint=hint)
    return {plain[slices]: count for slices, count in parts.items()}


class Selection(t.NamedTuple):
    """A layout by its name; ``specs`` is None for one that the GPUs themselves generate."""

    label: str
    specs: t.Optional[t.List[Spec]]

    @classmethod
    def of(cls, config: t.Any, selected: str) -> Selection:
        """Check a configuration and choose from it.

        Raises:
            InputError: if the configuration or the name is invalid.
        """
        if config:
            return cls(*select(config, selected))
        check_name(selected)
        return cls(selected, None)

    def without(self, names: t.Collection[str]) -> Selection:
        """Return the layout without the GPUs of some indices, UUIDs and PCI addresses, all in small letters."""

        def left(devices: t.Optional[t.Tuple[Device, ...]]) -> t.Optional[t.Tuple[Device, ...]]:
            return devices and tuple(device for device in devices if _name(device) not in names)

        if self.specs is None:
            return self
        return self._replace(
            specs=[spec._replace(devices=left(spec.devices)) for spec in self.specs]
        )

    def targets(self, states: t.Sequence[GpuState]) -> t.Dict[str, Target]:
        """Return the target of each GPU that the layout is about, by UUID."""
        if self.specs is not None:
            specs = entries_by_gpu(self.specs, [state.gpu for state in states])
            return {uuid: (spec.enabled, spec.layout) for uuid, spec in specs.items()}
        targets = {
            state.gpu.uuid: self._generated(state) for state in states if state.gpu.mig_capable
        }
        if not targets and self.label != "all-disabled":
            hint = "leave mig_selected empty for this node"
            raise NodeError("no GPU of this node can be partitioned", hint=hint)
        return targets

    def target(self, state: GpuState, gpus: t.Sequence[Gpu]) -> Target:
        """Return the target of one GPU that the layout is about; ``gpus`` are all of the node."""
        if self.specs is None:
            return self._generated(state)
        spec = entries_by_gpu(self.specs, gpus)[state.gpu.uuid]
        return spec.enabled, spec.layout

    def _generated(self, state: GpuState) -> Target:
        if self.label != "all-disabled" and not state.profiles and not state.gpu.mig_current:
            return True, {}  # the profiles are known once MIG mode is on, and then planned for
        with about(state.gpu):
            layout = generated(self.label, state.profiles)
        return layout is not None, layout or {}

    def idle_entries(self, states: t.Sequence[GpuState]) -> t.List[str]:
        """Return the entries that no GPU of the node matches."""
        gpus = [state.gpu for state in states]
        return [spec.key for spec in self.specs or () if not any(spec.matches(gpu) for gpu in gpus)]

    def check_broken(self, broken: t.Sequence[NvmlError]) -> None:
        """Raise the error of a GPU that does not answer and that the layout may be about."""
        for error in broken:
            if self.specs is None or any(
                spec.devices is None or error.gpu_index in spec.devices for spec in self.specs
            ):
                remedy = "leave the GPU out of the layout's devices"
                error.hint = f"reset the GPU or reboot the node, or {remedy}"
                raise error


class Declared(t.NamedTuple):
    """The user's declaration. ``by_label`` is whether the node's label may name another layout of ``config``."""

    config: t.Any
    selected: str
    by_label: bool = False

    def selection(self, chosen: str = "") -> Selection:
        """Return the layout that counts; ``chosen`` is the label's last choice.

        If nothing is selected and the label has not chosen yet, it is one without entries.

        Raises:
            InputError: if the configuration or the selected name is invalid.
        """
        known = names(self.config) if self.by_label else []
        if chosen in known:
            return Selection.of(self.config, chosen)
        if len(known) > 1 and not self.selected:
            select(self.config, known[0])  # checks all of it
            return Selection("", [])
        return Selection.of(self.config, self.selected)

    def dump(self) -> str:
        """Return the text of the file for the next boot.

        Raises:
            InputError: if it is too long to be read again.
        """
        data = {"config": self.config, "selected": self.selected}
        data.update({"by_label": True} if self.by_label else {})
        text = json.dumps(data, indent=1, sort_keys=True) + "\n"
        if len(text) > json_data.LONGEST:
            expected = f"at most {json_data.LONGEST >> 10} KiB of JSON"
            raise InputError.of("config", self.config, expected)
        return text

    @classmethod
    def load(cls, text: str, path: str) -> Declared:
        """Return the declaration from the file's text.

        Raises:
            NodeError: if it is damaged.
        """
        with readable(path, "run gpu.node.mig again, which writes it"):
            data = json_data.loads(text)
            return cls(data["config"], str(data["selected"]), data.get("by_label") is True)
