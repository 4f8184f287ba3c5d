# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a reset has to know of a node: its GPUs, what of them waits, and who has them."""

from __future__ import annotations

import contextlib
import re
import typing as t

from ..._base.dra.names import UNIT as DRA_UNIT
from ..._base.gpu import PERSISTENCE, NvmlError, Process, SettingsTold, architecture
from ..._base.services.driver import FABRIC_SERVICE
from ..._base.services.mps import SERVER, idle_servers
from ..._base.steps import Step
from ..._machine.devices import parse_number
from ..._machine.host import Host
from ..._machine.nvml import faults
from ..._machine.nvml.real import open_nvml
from ..._machine.nvml.settings import persistent, settings
from ..._machine.nvml.within import within
from ..._machine.units import properties
from ..._node.machine import facts, mps
from ..._node.users.allocated import Allocation, Devices, places
from ..._node.users.holders import OURS
from ..._node.users.machine.users import MAJOR, gpu_users, user_of
from ..._node.users.users import KERNELS, User
from ..machine import observe_node, observe_nvml
from ..machine.observe_nvml import HUNG, Asked
from ..signs import Answer, GpuSigns, connected_gpus
from .state import NOTHING_TOLD, Found, Server, State

DRIVERS = "/proc/driver/nvidia/gpus"  # a folder for each GPU that the driver has
INFORMATION = re.compile(r"^(GPU UUID|Device Minor|GPU Excluded):\s+(\S+)\s*$", re.M)
ADVERTISING = (OURS, DRA_UNIT, "gpu-node-labels.service")  # each opens the GPUs
ACTIVE = ("active", "activating", "reloading")
NO_DRIVER = "no driver is loaded that has a GPU"
Information = t.Mapping[str, str]


class More(t.NamedTuple):
    """What a GPU is set to, and the processes on it."""

    told: SettingsTold = NOTHING_TOLD
    processes: t.Tuple[Process, ...] = ()


class Users(t.NamedTuple):
    """Who has a GPU: processes, pods and claims in words; and the MPS servers on it without clients."""

    processes: t.Tuple[User, ...] = ()
    pods: t.Tuple[str, ...] = ()
    servers: t.Tuple[Server, ...] = ()

    @property
    def words(self) -> t.Tuple[str, ...]:
        """Return all in words."""
        return (*(f"process {one}" for one in self.processes), *self.pods)


def observe(host: Host) -> State:
    """Return the node and its GPUs, without those who have them. ``problem`` says why they are not known."""
    loaded = facts.loaded_driver(host)
    told = {one: _information(host, one) for one in host.listdir(DRIVERS)}
    told = {one: each for one, each in told.items() if each.get("GPU Excluded") != "Yes"}
    if loaded is None or not told:
        return State(problem=NO_DRIVER)
    try:
        asked = observe_nvml.ask(told)
        answer = {one: each for one, each in asked.items() if each.answer is not Answer.NEVER}
        more = _more({one: each.devices for one, each in answer.items()})
    except NvmlError as error:
        return State(problem=str(error))
    branch = int(loaded.version.partition(".")[0])
    gpus = tuple(_found(host, address, told, asked, more) for address in asked)
    ours = tuple(one for one in ADVERTISING if _runs(host, one))
    return State(
        observe_node.node(host, asked.values(), branch, observe_node.fabric(host, 0.0)),
        gpus,
        ours,
        _runs(host, FABRIC_SERVICE),
    )


def _information(host: Host, address: str) -> Information:
    return dict(INFORMATION.findall(host.read(f"{DRIVERS}/{address}/information") or ""))


def _more(gpus: t.Mapping[str, t.Optional[Devices]]) -> t.Dict[str, More]:
    """Return more of GPUs by their addresses. NvmlError: the driver does not answer."""

    def ask() -> t.Dict[str, More]:
        found = {}
        with open_nvml() as nvml:
            for address, devices in gpus.items():
                with contextlib.suppress(
                    NvmlError, LookupError
                ):  # what it is about was asked before
                    handle = faults.at(address)
                    found[address] = More(SettingsTold({PERSISTENCE: persistent(handle)}))
                    told = settings(handle)
                    processes = tuple(nvml.processes(devices.gpu)) if devices else ()
                    found[address] = More(told, processes)
        return found

    return within(HUNG, "reading the settings and processes of GPUs", ask)


def _found(
    host: Host,
    address: str,
    told: t.Mapping[str, Information],
    asked: t.Mapping[str, Asked],
    more: t.Mapping[str, More],
) -> Found:
    one, links = asked[address], {at: each.links for at, each in asked.items()}
    peers = connected_gpus(address, {at: each and each.peers for at, each in links.items()})
    on_bus = {each.address: each.architecture for each in facts.gpus(host)}
    kind = architecture(one.devices.gpu.pci_device_id) if one.devices else ""
    names = {at: told[at].get("GPU UUID", at) for at in asked}
    observed = GpuSigns(
        names[address],
        architecture=kind or on_bus.get(address, ""),
        answer=one.answer,
        signs=one.signs,
        peers=None if peers is None else tuple(names[at] for at in peers),
    )
    known = more.get(address, More()).told
    return Found(observed, address, _number(address, asked), one.serial, one.devices, known)


def _number(address: str, asked: t.Mapping[str, Asked]) -> t.Optional[int]:
    """Return NVML's index of a GPU. It counts by addresses, also one that does not tell, if all others are so."""
    order = sorted(asked)
    odd = [one for one, each in asked.items() if each.number not in (None, order.index(one))]
    return asked[address].number if odd else order.index(address)


def _runs(host: Host, unit: str) -> bool:
    return properties(host, unit, "ActiveState").get("ActiveState") in ACTIVE


def users(
    host: Host,
    gpus: t.Sequence[Found],
    every: t.Sequence[Found],
    allocations: t.Sequence[Allocation],
    makes_way: t.Callable[[User], bool],
) -> t.Dict[str, Users]:
    """Return who has some GPUs, by UUID, of all of a node. NvmlError: the driver does not answer."""
    idle = idle_servers(mps.states(host))
    more = _more({one.pci: one.devices for one in gpus})

    def on(gpu: Found) -> Users:
        processes = list(_processes(host, gpu, more.get(gpu.pci, More()).processes))
        servers = [one for one in processes if one.pid in idle and _serves(one)]
        others = [one for one in processes if one not in servers and one.unit not in ADVERTISING]
        pods = dict.fromkeys(str(one) for one in allocations if _has(one, gpu, every))
        return Users(
            tuple(one for one in others if not makes_way(one)),
            tuple(pods),
            tuple(Server(one.pid, idle[one.pid]) for one in servers),
        )

    return {one.uuid: on(one) for one in gpus}


def _processes(host: Host, gpu: Found, told: t.Sequence[Process]) -> t.Iterator[User]:
    """Yield those that have a GPU open, also by its DRM devices, and those that NVML tells of."""
    minor = _information(host, gpu.pci).get("Device Minor", "")
    folder = f"{facts.BUS}/{gpu.pci}/drm"
    numbers = [host.read(f"{folder}/{name}/dev") for name in host.listdir(folder)]
    numbers += [f"{MAJOR}:{minor}"] if minor else []
    devices = frozenset(filter(None, map(parse_number, numbers)))
    found = {one.pid: one for one in gpu_users(host, devices)}
    for one in told:
        if one.pid not in found:
            user = user_of(host, one.pid)
            name = one.name.rpartition("/")[2][:KERNELS]
            found[one.pid] = user if user.program else user._replace(program=name)
    yield from (found[pid] for pid in sorted(found))


def _serves(user: User) -> bool:
    return user.program == SERVER[:KERNELS]


def _has(allocation: Allocation, gpu: Found, every: t.Sequence[Found]) -> bool:
    """Tell whether an allocation is on a GPU: on each that tells nothing of itself, where it is on no other one."""
    found = {
        place.gpu for place in places(allocation, [one.devices for one in every if one.devices])
    }
    return gpu.uuid in found or (not found and gpu.devices is None)


def end_server(host: Host, gpu: Found, step: Step) -> None:
    """End an MPS server without clients. NodeError: it does not end, since clients came meanwhile."""
    if gpu.devices is not None:
        with open_nvml() as nvml:
            mps.end_server(host, nvml, gpu.devices.gpu, step)
