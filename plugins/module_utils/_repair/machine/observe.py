# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node as a repair finds it: what its GPUs and its kernel say, what was done before, and who has what."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.errors import NodeError
from ..._base.gpu import NvmlError
from ..._machine.host import Host
from ..._node.machine import facts
from ..._node.machine.quarantine import QuarantineFile
from ..._node.quarantine import Quarantine
from ..._node.users.allocated import Allocation, places
from ..._node.users.machine import allocated
from .. import connected
from ..case import Boot, Cases
from ..plan import Observation, Seen, reset_since
from ..state import ANSWERED, ObservedGpu, ObservedNode
from . import cases, observe_node, observe_nvml
from .observe_nvml import Asked

DRIVERS = "/proc/driver/nvidia/gpus"  # a folder for each GPU that the driver has
UUID = re.compile(r"^GPU UUID:\s+(GPU-[0-9a-fA-F-]{36})\s*$", re.M)
EXCLUDED = re.compile(r"^GPU Excluded:\s+Yes\s*$", re.M)
NO_DRIVER = "no driver of NVIDIA's is loaded"


class Settings(t.NamedTuple):
    """How far the kernel's log is read back, in seconds, and how many GPUs are meant."""

    window: float
    gpu_count: int = -1


class _Told(t.NamedTuple):
    """All that was read, by PCI address where it is of GPUs."""

    devices: t.Mapping[str, str]  # those on the bus, with their architectures
    asked: t.Mapping[str, Asked]
    uuids: t.Mapping[str, str]
    log: observe_node.Log
    quarantine: Quarantine
    cases: Cases
    boot: Boot


def observe(host: Host, settings: Settings) -> Observation:
    """Return what was found; what can't be known is said. NodeError: files of ours are damaged."""
    now, boot, known = cases.now(), cases.boot(host), cases.CaseFile(host).read()
    devices = {one.address: one.architecture for one in facts.gpus(host)}
    loaded = facts.loaded_driver(host)
    missing = facts.recorded_gpus(host, devices, settings.gpu_count).missing
    nothing = Observation(cases=known, boot=boot, now=now)
    if loaded is None:
        return nothing.because(NO_DRIVER) if devices or missing else nothing
    uuids = _uuids(host)
    try:
        asked = observe_nvml.ask(uuids)
    except NvmlError as error:
        return nothing.because(str(error))
    log = observe_node.log(host, now, now - settings.window)
    names = {**log.logged.uuids, **{address: one for address, one in uuids.items() if one}}
    told = _Told(devices, asked, names, log, QuarantineFile(host).read(), known, boot)
    pods, untold = _pods(host, told)
    gpus = [_seen(told, one, pods.get(one, ())) for one in (*asked, *missing)]
    gpus += _gone(told, gpus)
    branch = int(loaded.version.partition(".")[0])
    node = _node(host, told, branch, now, [one for one in gpus if not one.replaced_by])
    warnings = (*log.warnings, *untold, *_unasked(asked))
    return Observation(node, tuple(gpus), known, boot, now, warnings=warnings)


def _uuids(host: Host) -> t.Dict[str, str]:
    """Return the GPUs that the driver has, with their UUIDs where it tells them, but for those that it leaves out."""
    found = {}
    for address in host.listdir(DRIVERS):
        text = host.read(f"{DRIVERS}/{address}/information") or ""
        if not EXCLUDED.search(text):
            named = UUID.search(text)
            found[address] = named[1] if named else ""
    return found


def _name(told: _Told, address: str) -> str:
    """Return the UUID of the GPU at an address, or the address where nobody knows it."""
    there = told.asked.get(address, Asked()).devices
    kept = {one.pci: uuid for uuid, one in told.quarantine.gpus.items() if one.pci}
    kept.update({one.pci: uuid for uuid, one in told.cases.gpus.items() if one.pci})
    return (
        (there.gpu.uuid if there else "") or told.uuids.get(address) or kept.get(address, address)
    )


def _seen(told: _Told, address: str, pods: t.Tuple[str, ...]) -> Seen:
    uuid, asked = _name(told, address), told.asked.get(address, Asked())
    case = told.cases.gpus.get(uuid)
    edges = {one: each.links.peers if each.links else None for one, each in told.asked.items()}
    peers = connected.peers(address, edges)
    observed = ObservedGpu(
        uuid,
        architecture=told.devices.get(address, ""),
        present=address in told.devices,
        answer=asked.answer,
        signs=asked.signs,
        xids=told.log.logged.xids(address, since=reset_since(case)),
        attempts=case.tried(told.boot) if case else (),
        peers=None if peers is None else tuple(_name(told, one) for one in peers),
    )
    serial = asked.serial or (case.serial if case else "")
    return Seen(observed, address, serial, asked.number, _by(told, uuid), pods)


def _by(told: _Told, uuid: str) -> str:
    """Return who has set a GPU aside, itself or with its node; empty where nobody has."""
    found = told.quarantine.of(uuid)
    return found.by if found else ""


def _gone(told: _Told, gpus: t.Sequence[Seen]) -> t.Iterator[Seen]:
    """Yield the GPUs of open cases and of our fences that the driver does not have any more."""
    places_of = {uuid: one.pci for uuid, one in told.quarantine.gpus.items()}
    places_of.update({uuid: one.pci for uuid, one in told.cases.gpus.items() if one.is_open})
    here = {one.uuid: one for one in gpus}
    for uuid, address in sorted(places_of.items()):
        if uuid not in here:
            other = [one.uuid for one in gpus if one.pci == address and one.observed.present]
            case = told.cases.gpus.get(uuid)
            attempts = case.tried(told.boot) if case else ()
            gone = ObservedGpu(uuid, present=False, attempts=attempts)
            serial = case.serial if case else ""
            yield Seen(gone, address, serial, None, _by(told, uuid), (), "".join(other[:1]))


def _node(host: Host, told: _Told, branch: int, now: float, gpus: t.Sequence[Seen]) -> ObservedNode:
    fabric = observe_node.fabric(host, now)
    resets = [reset_since(told.cases.gpus.get(one.uuid)) for one in gpus]
    return dataclasses.replace(
        observe_node.node(host, told.asked.values(), branch, fabric),
        fabric_restarted=fabric.restarted > max(resets, default=0.0),
        sxids=told.log.logged.sxids(since=min(resets, default=0.0)),
    )


def _pods(host: Host, told: _Told) -> t.Tuple[t.Dict[str, t.Tuple[str, ...]], t.List[str]]:
    """Return the pods and claims by the PCI addresses of their GPUs, and why that is not known where it is not."""
    try:
        given = allocated.observe(host)
    except NodeError as error:
        return {}, [str(error)]
    found: t.Dict[str, t.Dict[str, None]] = {}
    for one in given:
        for address in _addresses(told, one):
            found.setdefault(address, {})[f"{one.namespace}/{one.pod}"] = None
    return {address: tuple(pods) for address, pods in found.items()}, []


def _addresses(told: _Told, one: Allocation) -> t.Set[str]:
    """Return where an allocation is: on each GPU that tells nothing of itself, where it is on none of the others."""
    devices = {one.devices.gpu.uuid: address for address, one in told.asked.items() if one.devices}
    known = [each.devices for each in told.asked.values() if each.devices]
    found = {devices[place.gpu] for place in places(one, known)}
    silent = {address for address, each in told.asked.items() if not each.devices}
    named = {address for address in silent if told.uuids.get(address, "?") in one.device}
    return found or named or silent


def _unasked(asked: t.Mapping[str, Asked]) -> t.Iterator[str]:
    for address, one in asked.items():
        if one.error and one.error.code not in ANSWERED:
            yield f"the GPU at {address} can't be asked for signs of faults: {one.error}"
