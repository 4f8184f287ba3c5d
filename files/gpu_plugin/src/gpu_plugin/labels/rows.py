# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The labels of a node: the names and values of NVIDIA's GPU Feature Discovery 0.20. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from .._shared._core.gpu import MigDevice
from .._shared._nvml.readings import MigAttributes
from ..config.configuration import Config
from ..config.sharing import GPU_RESOURCE, VENDOR, resource_name
from ..offer.decide import share
from ..offer.devices import (
    DISPLAY_ONLY,
    Device,
    EnumerationRefused,
    GpuView,
    Inventory,
    Resources,
    check_single,
    enumerate_devices,
)
from .owned import value

WHOLE: Final = 256
STATUS, HAS_CAPABILITIES, FIRST = 0x06, 0x10, 0x34
VENDOR_SPECIFIC: Final = 0x09
MARK: Final = b"VF"
RECORDS: Final = 5
HOST_DRIVER, TEXT = 0, 10


@dataclass(frozen=True)
class Vgpu:
    """The driver of a virtual GPU's host; empty where it is not known."""

    host_driver_version: str = ""
    host_driver_branch: str = ""


def vgpu(config: bytes) -> Vgpu | None:
    """Return what a GPU's configuration space has of its host; None for a GPU that is real."""
    for capability in _vendor_specific(config):
        if capability[3:5] == MARK:
            return _host(capability)
    return None


def readable(config: bytes) -> bool:
    """Tell whether it is the whole space; a user without rights is shown the beginning only."""
    return len(config) >= WHOLE


def _vendor_specific(config: bytes) -> Iterator[bytes]:
    if not readable(config) or not config[STATUS] & HAS_CAPABILITIES:
        return
    seen: set[int] = set()
    at = config[FIRST]
    while at and at not in seen and at + 2 < len(config):
        seen.add(at)
        if config[at] == VENDOR_SPECIFIC:
            yield config[at : at + config[at + 2]]
        at = config[at + 1]


def _host(capability: bytes) -> Vgpu:
    """Look for the record of the host's driver among records of id, length and data."""
    at = RECORDS
    while at + 1 < len(capability):
        data = capability[at + 2 : at + 2 + 2 * TEXT]
        if capability[at] == HOST_DRIVER and len(data) == 2 * TEXT:
            version, branch = (
                part.split(b"\0")[0].decode("ascii", "replace")
                for part in (data[:TEXT], data[TEXT:])
            )
            return Vgpu(version, branch)
        if not capability[at + 1]:
            break
        at += capability[at + 1]
    return Vgpu()


MIB: Final = 1024**2
OLDEST_MPS: Final = (3, 5)
CLASSES: Final = {0x0302: "compute", 0x0300: "graphics"}
FAMILIES: Final = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    7: "volta",
    8: "ampere",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}

Labels = dict[str, str]
NONE, TIME_SLICING, MPS = "none", "time-slicing", "mps"


@dataclass(frozen=True)
class Replication:
    """In how many replicas a device is advertised, by which strategy, and whether under another name."""

    replicas: int
    strategy: str = NONE
    renamed: bool = False


UNSHARED: Final = Replication(1)


@dataclass(frozen=True)
class Facts:
    """What is known of a node. Maps go by the UUIDs of GPUs, ``attributes`` by those of MIG devices.

    ``classes`` are PCI classes such as 0x030200, ``cliques`` where each GPU is in an NVLink fabric;
    ``vgpus`` has GPUs whose PCI configuration could be read, and None for those that are real.
    """

    inventory: Inventory
    cuda_version: str
    machine: str = ""
    classes: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, MigAttributes] = field(default_factory=dict)
    cliques: Mapping[str, str | None] = field(default_factory=dict)
    vgpus: Mapping[str, Vgpu | None] = field(default_factory=dict)


def labels(facts: Facts, config: Config, started: int | None = None) -> Labels:
    """Return all labels; ``started`` is the time stamp's, in seconds, where there is to be one."""
    found: Labels = {}
    if started is not None:
        found[f"{VENDOR}/gfd.timestamp"] = str(started)
    found |= _vgpu(facts)
    views = [view for view in facts.inventory.gpus if view.gpu.name not in DISPLAY_ONLY]
    if not views:
        return found
    found |= _versions(facts)
    found |= _node(facts, views)
    by_uuid = _replications(facts.inventory, config)
    found |= _gpus(views, by_uuid, config.mig_strategy)
    if config.mig_strategy != "none":
        found[f"{VENDOR}/mig.strategy"] = config.mig_strategy
    if config.mig_strategy == "single":
        found |= _single(facts, views, by_uuid)
    elif config.mig_strategy == "mixed":
        found |= _mixed(facts, views, by_uuid)
    return found


def models(inventory: Inventory) -> list[str]:
    """Return the models of a node's GPUs; the labels are those of the first."""
    views = [view for view in inventory.gpus if view.gpu.name not in DISPLAY_ONLY]
    counts = Counter(view.gpu.name for view in views)  # equal ones stay in the order of the GPUs
    return [name for name, _count in counts.most_common()]


def _replications(inventory: Inventory, config: Config) -> dict[str, Replication]:
    """Return how each device is advertised; nothing is, where the MIG strategy does not fit."""
    try:
        whole = enumerate_devices(inventory, config.mig_strategy, config.naming)
    except EnumerationRefused:
        return {}
    return _shared(whole, share(whole, config.sharing))


def _shared(whole: Resources, shared: Resources) -> dict[str, Replication]:
    """Return how each device is shared, by its UUID, from the resources before and after sharing."""
    before = {device.uuid: name for name, devices in whole.items() for device in devices}
    pieces: dict[str, list[tuple[str, Device]]] = {}
    for name, devices in shared.items():
        for device in devices:
            pieces.setdefault(device.uuid, []).append((name, device))
    return {
        uuid: Replication(len(some), _strategy(some[0][1]), some[0][0] != before[uuid])
        for uuid, some in pieces.items()
    }


def _strategy(device: Device) -> str:
    if getattr(device, "mps", None) is not None:
        return MPS
    return NONE if device.replica is None else TIME_SLICING


def _together(some: Iterable[Replication]) -> Replication:
    """Return the one that stands for several: that with the most replicas."""
    return max(some, key=lambda one: one.replicas, default=UNSHARED)


def _vgpu(facts: Facts) -> Labels:
    if not facts.vgpus:
        return {}
    hosts = [host for host in facts.vgpus.values() if host is not None]
    found = {f"{VENDOR}/vgpu.present": str(bool(hosts)).lower()}
    for host in hosts[:1]:
        found[f"{VENDOR}/vgpu.host-driver-version"] = value(host.host_driver_version)
        found[f"{VENDOR}/vgpu.host-driver-branch"] = value(host.host_driver_branch)
    return found


def _versions(facts: Facts) -> Labels:
    driver = value(facts.inventory.driver_version)
    major, minor, revision = (*driver.split(".", 2), "", "", "")[:3]
    cuda_major, _dot, cuda_minor = facts.cuda_version.partition(".")
    names = {
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.driver-version.full": driver,
        "cuda.runtime.major": cuda_major,
        "cuda.runtime.minor": cuda_minor,
        "cuda.runtime-version.major": cuda_major,
        "cuda.runtime-version.minor": cuda_minor,
        "cuda.runtime-version.full": facts.cuda_version,
    }
    return {f"{VENDOR}/{name}": text for name, text in names.items()}


def _node(facts: Facts, views: list[GpuView]) -> Labels:
    classes = {facts.classes.get(view.gpu.uuid, 0) >> 8 for view in views}
    mode = CLASSES.get(next(iter(classes)), "unknown") if len(classes) == 1 else "unknown"
    mig = any(view.gpu.mig_capable for view in views)
    mps = all(view.gpu.compute_capability >= OLDEST_MPS for view in views)
    found = {
        "gpu.machine": value(facts.machine) or "unknown",
        "gpu.mode": mode,
        "mig.capable": str(mig).lower(),
        "mps.capable": str(mps).lower(),
    }
    cliques = {facts.cliques[uuid] for uuid in facts.cliques if facts.cliques[uuid]}
    if len(cliques) == 1:
        found["gpu.clique"] = value(str(cliques.pop()))
    return {f"{VENDOR}/{name}": text for name, text in found.items()}


def _gpus(views: list[GpuView], by_uuid: Mapping[str, Replication], strategy: str) -> Labels:
    counts = Counter(view.gpu.name for view in views)
    model = counts.most_common(1)[0][0]
    alike = [view for view in views if view.gpu.name == model]
    whole = [view for view in alike if strategy == "none" or not view.gpu.mig_current]
    shared = _together(by_uuid.get(view.gpu.uuid, UNSHARED) for view in whole)
    gpu = (whole or alike)[0].gpu
    found = _base(model, len(alike), shared if whole else Replication(0), "")
    if gpu.memory_total:
        found["memory"] = str(gpu.memory_total // MIB)
    major, minor = gpu.compute_capability
    if major:
        found["family"] = _family(major, minor)
        found["compute.major"], found["compute.minor"] = str(major), str(minor)
    return _under(GPU_RESOURCE, found)


def _family(major: int, minor: int) -> str:
    special = {(7, 5): "turing", (8, 9): "ada-lovelace"}
    return special.get((major, minor)) or FAMILIES.get(major, "undefined")


def _single(facts: Facts, views: list[GpuView], by_uuid: Mapping[str, Replication]) -> Labels:
    on = [view for view in views if view.gpu.mig_current]
    if not on:
        return {}
    try:
        check_single(views)
    except EnumerationRefused:
        found = {"product": value(on[0].gpu.name, "MIG-INVALID"), "sharing-strategy": ""}
        return _under(
            GPU_RESOURCE, {**found, **dict.fromkeys(("count", "replicas", "memory"), "0")}
        )
    return _under(GPU_RESOURCE, _mig(facts, on, by_uuid))


def _mixed(facts: Facts, views: list[GpuView], by_uuid: Mapping[str, Replication]) -> Labels:
    found: Labels = {}
    for profile in sorted({mig.profile for view in views for mig in view.mig}):
        some = [
            GpuView(view.gpu, tuple(mig for mig in view.mig if mig.profile == profile))
            for view in views
        ]
        found |= _under(resource_name(profile), _mig(facts, some, by_uuid))
    return found


def _mig(facts: Facts, views: list[GpuView], by_uuid: Mapping[str, Replication]) -> Labels:
    """Return the labels of MIG devices that are all of one profile."""
    pairs: list[tuple[GpuView, MigDevice]] = [(view, mig) for view in views for mig in view.mig]
    if not pairs:
        return {}
    shared = _together(by_uuid.get(mig.uuid, UNSHARED) for _view, mig in pairs)
    view, mig = pairs[0]
    profile = mig.profile.replace("+", ".")
    found = _base(view.gpu.name, len(pairs), shared, f"MIG-{profile}")
    known = facts.attributes.get(mig.uuid)
    return found | (_attributes(known) if known else {})


def _attributes(one: MigAttributes) -> Labels:
    numbers = {
        "memory": one.memory_mib,
        "multiprocessors": one.multiprocessors,
        "slices.gi": one.gi_slices,
        "slices.ci": one.ci_slices,
        "engines.copy": one.copy_engines,
        "engines.decoder": one.decoders,
        "engines.encoder": one.encoders,
        "engines.jpeg": one.jpegs,
        "engines.ofa": one.ofas,
    }
    return {name: str(number) for name, number in numbers.items()}


def _base(model: str, count: int, shared: Replication, kind: str) -> Labels:
    suffixes = [kind] if kind else []
    if shared.replicas > 1 and not shared.renamed:
        suffixes.append("SHARED")
    return {
        "product": value(model, value("-".join(suffixes))),
        "count": str(count),
        "replicas": str(shared.replicas),
        "sharing-strategy": shared.strategy,
    }


def _under(resource: str, found: Labels) -> Labels:
    return {f"{resource}.{name}": text for name, text in found.items()}
