# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The labels of a node: the names and values of NVIDIA's GPU Feature Discovery 0.20. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .._shared._base.dra.names import DEVICE_PLUGIN, DRIVER
from .._shared._base.gpu import MigDevice
from .._shared._machine.nvml.readings import MigAttributes
from ..advertise.decide import Advertised, Offered, decide
from ..config.allocation import owner
from ..config.configuration import Config
from ..config.sharing import GPU_RESOURCE, VENDOR, resource_name
from ..model.inventory import DISPLAY_ONLY, GpuView, Inventory, Kind
from ..model.quantity import MIB
from .owned import value

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
# In a GPU's PCI configuration space.
WHOLE: Final = 256
STATUS, HAS_CAPABILITIES, FIRST = 0x06, 0x10, 0x34
VENDOR_SPECIFIC: Final = 0x09
HOST_DRIVER, TEXT = 0, 10

Labels = dict[str, str]


@dataclass(frozen=True)
class Vgpu:
    """The driver of a virtual GPU's host, empty if it is not known."""

    host_driver_version: str = ""
    host_driver_branch: str = ""


def readable(config: bytes) -> bool:
    """Return whether it is the whole configuration space; without privileges only its beginning can be read."""
    return len(config) >= WHOLE


def vgpu(config: bytes) -> Vgpu | None:
    """Return what a GPU's configuration space has of its host, None for a physical GPU."""
    if not readable(config) or not config[STATUS] & HAS_CAPABILITIES:
        return None
    seen: set[int] = set()
    at = config[FIRST]
    while at and at not in seen and at + 2 < len(config):
        seen.add(at)
        capability = config[at : at + config[at + 2]]
        if config[at] == VENDOR_SPECIFIC and capability[3:5] == b"VF":
            return _host(capability)
        at = config[at + 1]
    return None


def _host(capability: bytes) -> Vgpu:
    """Look for the record of the host's driver among records of id, length and data."""
    at = 5
    while at + 1 < len(capability):
        data = capability[at + 2 : at + 2 + 2 * TEXT]
        if capability[at] == HOST_DRIVER and len(data) == 2 * TEXT:
            texts = (part.split(b"\0")[0] for part in (data[:TEXT], data[TEXT:]))
            return Vgpu(*(text.decode("ascii", "replace") for text in texts))
        if not capability[at + 1]:
            break
        at += capability[at + 1]
    return Vgpu()


@dataclass(frozen=True)
class Replication:
    """How a device is advertised: its replicas, their strategy, and whether under another name."""

    replicas: int
    strategy: str = "none"
    renamed: bool = False


@dataclass(frozen=True)
class Facts:
    """The facts about a node. Maps are by the UUIDs of GPUs, ``attributes`` by those of MIG devices.

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
    """Return all labels; ``started`` is the time stamp in seconds, None for no time stamp."""
    result = {} if started is None else {f"{VENDOR}/gfd.timestamp": str(started)}
    result |= _vgpu(facts)
    views = _views(facts.inventory)
    if not views:
        return result
    advertised = decide(facts.inventory, {}, config)
    by_uuid = {each.device.uuid: _replication(each) for each in advertised.offered}
    if config.dra.allocation != DEVICE_PLUGIN:
        named = {"allocation": config.dra.allocation, "enforcement": config.dra.enforcement}
        result |= _under(DRIVER, "/", named)
    result |= _under(VENDOR, "/", _versions(facts) | _node(facts, views))
    result[f"{VENDOR}/mps.capable"] = _word(
        any(replication.strategy == "mps" for replication in by_uuid.values())
    )
    result |= _gpus(facts, by_uuid, config.mig_strategy)
    if config.mig_strategy != "none":
        result[f"{VENDOR}/mig.strategy"] = config.mig_strategy
    if config.mig_strategy == "single":
        ours = [view for view in views if owner(view.gpu, config.dra) == DEVICE_PLUGIN]
        result |= _single(facts, ours, by_uuid, advertised)
    elif config.mig_strategy == "mixed":
        for profile in sorted({mig.profile for view in views for mig in view.mig}):
            pairs = [pair for pair in _pairs(views) if pair[1].profile == profile]
            result |= _under(resource_name(profile), ".", _mig(facts, pairs, by_uuid))
    return result


def models(inventory: Inventory) -> list[str]:
    """Return the models of a node's GPUs; the labels are those of the first."""
    counts = Counter(view.gpu.name for view in _views(inventory))
    return [name for name, _count in counts.most_common()]  # equal ones in the order of the GPUs


def _views(inventory: Inventory) -> list[GpuView]:
    return [view for view in inventory.gpus if view.gpu.name not in DISPLAY_ONLY]


def _pairs(views: list[GpuView]) -> list[tuple[GpuView, MigDevice]]:
    return [(view, mig) for view in views for mig in view.mig]


def _word(truth: bool) -> str:
    return str(truth).lower()


def _under(resource: str, sign: str, labels_below: Labels) -> Labels:
    return {f"{resource}{sign}{name}": text for name, text in labels_below.items()}


def _replication(offered: Offered) -> Replication:
    """Return how a device is advertised."""
    device, renamed = offered.device, offered.resource != offered.resource_of_kind
    unsharable = device.problem is not None and device.problem.kind is Kind.UNSHARABLE
    strategy = "none" if offered.replicas is None else "time-slicing"
    if device.mps is not None or unsharable:
        strategy = "mps"
    return Replication(offered.replicas or 1, strategy, renamed)


def _together(uuids: Iterable[str], by_uuid: Mapping[str, Replication]) -> Replication:
    """Return the replication with the most replicas, which stands for several devices."""
    replications = (by_uuid.get(uuid, Replication(1)) for uuid in uuids)
    return max(replications, key=lambda replication: replication.replicas, default=Replication(0))


def _vgpu(facts: Facts) -> Labels:
    if not facts.vgpus:
        return {}
    hosts = [host for host in facts.vgpus.values() if host is not None]
    result = {"present": _word(bool(hosts))}
    if hosts:
        result["host-driver-version"] = value(hosts[0].host_driver_version)
        result["host-driver-branch"] = value(hosts[0].host_driver_branch)
    return _under(f"{VENDOR}/vgpu", ".", result)


def _versions(facts: Facts) -> Labels:
    driver = value(facts.inventory.driver_version)
    major, minor, revision = (*driver.split(".", 2), "", "", "")[:3]
    cuda_major, _dot, cuda_minor = facts.cuda_version.partition(".")
    return {
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


def _node(facts: Facts, views: list[GpuView]) -> Labels:
    classes = {facts.classes.get(view.gpu.uuid, 0) >> 8 for view in views}
    mig = any(view.gpu.mig_capable for view in views)
    result = {
        "gpu.machine": value(facts.machine) or "unknown",
        "gpu.mode": CLASSES.get(classes.pop(), "unknown") if len(classes) == 1 else "unknown",
        "mig.capable": _word(mig),
    }
    cliques = set(filter(None, facts.cliques.values()))
    if len(cliques) == 1:
        result["gpu.clique"] = value(cliques.pop())
    return result


def _gpus(facts: Facts, by_uuid: Mapping[str, Replication], strategy: str) -> Labels:
    model = models(facts.inventory)[0]
    alike = [view for view in facts.inventory.gpus if view.gpu.name == model]
    whole = [view for view in alike if strategy == "none" or not view.gpu.mig_current]
    gpu = (whole or alike)[0].gpu
    shared = _together((view.gpu.uuid for view in whole), by_uuid)
    result = _base(model, len(alike), shared, "")
    if gpu.memory_total:
        result["memory"] = str(gpu.memory_total // MIB)
    major, minor = gpu.compute_capability
    if major:
        special = {(7, 5): "turing", (8, 9): "ada-lovelace"}
        result["family"] = special.get((major, minor)) or FAMILIES.get(major, "undefined")
        result["compute.major"], result["compute.minor"] = str(major), str(minor)
    return _under(GPU_RESOURCE, ".", result)


def _single(
    facts: Facts,
    views: list[GpuView],
    by_uuid: Mapping[str, Replication],
    advertised: Advertised,
) -> Labels:
    on = [view for view in views if view.gpu.mig_current]
    if not on:
        return {}
    if advertised.refusal:
        result = {"product": value(on[0].gpu.name, "MIG-INVALID"), "sharing-strategy": ""}
        result |= dict.fromkeys(("count", "replicas", "memory"), "0")
    else:
        result = _mig(facts, _pairs(on), by_uuid)
    return _under(GPU_RESOURCE, ".", result)


def _mig(
    facts: Facts, pairs: list[tuple[GpuView, MigDevice]], by_uuid: Mapping[str, Replication]
) -> Labels:
    """Return the labels of MIG devices that are all of one profile."""
    if not pairs:
        return {}
    shared = _together((mig.uuid for _view, mig in pairs), by_uuid)
    view, mig = pairs[0]
    result = _base(view.gpu.name, len(pairs), shared, f"MIG-{mig.profile.replace('+', '.')}")
    if attributes := facts.attributes.get(mig.uuid):
        numbers = {
            "memory": attributes.memory_mib,
            "multiprocessors": attributes.multiprocessors,
            "slices.gi": attributes.gi_slices,
            "slices.ci": attributes.ci_slices,
            "engines.copy": attributes.copy_engines,
            "engines.decoder": attributes.decoders,
            "engines.encoder": attributes.encoders,
            "engines.jpeg": attributes.jpegs,
            "engines.ofa": attributes.ofas,
        }
        result |= {name: str(number) for name, number in numbers.items()}
    return result


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
