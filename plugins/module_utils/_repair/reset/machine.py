# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs of a node before a reset, the modes that wait for it, and the users of each."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._base.dra.names import UNIT as DRA_UNIT
from ..._base.errors import checked_timeout
from ..._base.gpu import PERSISTENCE, NvmlError, Process, SettingsTold, architecture
from ..._base.services import mig
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
from ..._node.users.busy import FAIL, SKIP, WAIT, Busy
from ..._node.users.holders import OURS, advice
from ..._node.users.machine import allocated
from ..._node.users.machine.services import Services
from ..._node.users.machine.users import MAJOR, gpu_users, user_of
from ..._node.users.users import KERNELS, User
from ..machine import observe_node, observe_nvml
from ..machine.observe_nvml import HUNG, NvmlAnswer
from ..signs import Answer, GpuSigns, connected_gpus
from . import plan
from .state import NOTHING_TOLD, IdleServer, ResetGpu, ResetState

ADVERTISING = (OURS, DRA_UNIT, "gpu-node-labels.service")  # each opens the GPUs
ACTIVE = ("active", "activating", "reloading")
POLL_SECONDS = 1.0
OUTCOMES = {FAIL: "would be refused", WAIT: "would wait", SKIP: "left out"}
NO_DRIVER = "no driver is loaded that has a GPU"


class _Use(t.NamedTuple):
    """The settings of a GPU, and the processes on it."""

    reported: SettingsTold = NOTHING_TOLD
    processes: t.Tuple[Process, ...] = ()


class GpuUsers(t.NamedTuple):
    """The users of a GPU: processes, texts for pods and claims, and the MPS servers on it without clients."""

    processes: t.Tuple[User, ...] = ()
    pods: t.Tuple[str, ...] = ()
    servers: t.Tuple[IdleServer, ...] = ()

    @property
    def texts(self) -> t.Tuple[str, ...]:
        """Return texts for all processes, pods and claims."""
        return (*(f"process {process}" for process in self.processes), *self.pods)


def observe(host: Host) -> ResetState:
    """Return the node and its GPUs, without their users. ``problem`` says why they are not known."""
    driver = facts.loaded_driver(host)
    known = observe_node.driver_gpus(host)
    if driver is None or not known:
        return ResetState(problem=NO_DRIVER)
    try:
        asked = observe_nvml.ask(known)
        uses = _ask_use(
            {at: gpu.devices for at, gpu in asked.items() if gpu.answer is not Answer.NEVER}
        )
    except NvmlError as error:
        return ResetState(problem=str(error))
    links = {at: gpu.links and gpu.links.peers for at, gpu in asked.items()}
    on_bus = {gpu.address: gpu.architecture for gpu in facts.gpus(host)}
    uuids = {at: known[at].uuid or at for at in asked}
    gpus = []
    for at, gpu in asked.items():
        peers = connected_gpus(at, links)
        kind = architecture(gpu.devices.gpu.pci_device_id) if gpu.devices else ""
        signs = GpuSigns(
            uuids[at],
            architecture=kind or on_bus.get(at, ""),
            answer=gpu.answer,
            signs=gpu.signs,
            peers=None if peers is None else tuple(uuids[peer] for peer in peers),
        )
        settings = uses.get(at, _Use()).reported
        gpus.append(ResetGpu(signs, at, gpu_number(at, asked), gpu.serial, gpu.devices, settings))
    branch = int(driver.version.partition(".")[0])
    return ResetState(
        observe_node.node(host, asked.values(), branch, observe_node.fabric(host, 0.0)),
        tuple(gpus),
        tuple(unit for unit in ADVERTISING if _runs(host, unit)),
        _runs(host, FABRIC_SERVICE),
    )


def gpu_number(address: str, asked: t.Mapping[str, NvmlAnswer]) -> t.Optional[int]:
    """Return NVML's index of a GPU. It counts by addresses, also a GPU that does not tell, if all others are so."""
    order = sorted(asked)
    regular = all(gpu.number in (None, order.index(at)) for at, gpu in asked.items())
    return order.index(address) if regular else asked[address].number


def _runs(host: Host, unit: str) -> bool:
    return properties(host, unit, "ActiveState").get("ActiveState") in ACTIVE


def _ask_use(gpus: t.Mapping[str, t.Optional[Devices]]) -> t.Dict[str, _Use]:
    """Return the use of GPUs by their addresses.

    Raises:
        NvmlError: if the driver does not answer.
    """

    def ask() -> t.Dict[str, _Use]:
        uses = {}
        with open_nvml() as nvml:
            for address, devices in gpus.items():
                # An error of one GPU was reported before, by its signs.
                with contextlib.suppress(NvmlError, LookupError):
                    handle = faults.at(address)
                    uses[address] = _Use(SettingsTold({PERSISTENCE: persistent(handle)}))
                    values = settings(handle)
                    processes = tuple(nvml.processes(devices.gpu)) if devices else ()
                    uses[address] = _Use(values, processes)
        return uses

    return within(HUNG, "reading the settings and processes of GPUs", ask)


def users(
    host: Host,
    gpus: t.Sequence[ResetGpu],
    every: t.Sequence[ResetGpu],
    allocations: t.Sequence[Allocation],
    makes_way: t.Callable[[User], bool],
) -> t.Dict[str, GpuUsers]:
    """Return the users of some GPUs, by UUID, of all of a node.

    Raises:
        NvmlError: if the driver does not answer.
    """
    idle = idle_servers(mps.states(host))
    uses = _ask_use({gpu.pci: gpu.devices for gpu in gpus})
    result = {}
    for gpu in gpus:
        processes = _processes(host, gpu.pci, uses.get(gpu.pci, _Use()).processes)
        servers = [
            user for user in processes if user.pid in idle and user.program == SERVER[:KERNELS]
        ]
        pods = [str(allocation) for allocation in allocations if is_on(allocation, gpu, every)]
        result[gpu.uuid] = GpuUsers(
            tuple(
                user
                for user in processes
                if user not in servers and user.unit not in ADVERTISING and not makes_way(user)
            ),
            tuple(dict.fromkeys(pods)),
            tuple(IdleServer(user.pid, idle[user.pid]) for user in servers),
        )
    return result


class IdleGpus:
    """Takes GPUs from nobody for a change: who has them is known, and services that hold them make way and come back.

    Attributes:
        services: The services.
        advice: How the users of the GPUs that were looked at last are stopped.
    """

    def __init__(
        self, host: Host, params: t.Mapping[str, t.Any], name: str, change: str, *, check_mode: bool
    ) -> None:
        """Check the options that modules with idle GPUs have. ``change`` is what becomes of GPUs, such as ``reset``."""
        self._host, self._params, self._check_mode = host, params, check_mode
        self._name, self._change = name, change
        self.services = Services(host, params["stop_services"])
        checked_timeout(params["lock_timeout"])
        seconds = checked_timeout(params["wait_timeout"], "wait_timeout")
        waits = params["on_busy"] == WAIT and not check_mode
        self._deadline = time.monotonic() + seconds if waits else 0.0
        self._waited = params["wait_timeout"] if waits else None
        self._stack = contextlib.ExitStack()
        self._locked = check_mode
        self.advice = ""

    def lock(self) -> None:
        """Hold the lock of whatever changes GPUs, from the first call on until the process ends."""
        if not self._locked:
            lock = self._host.lock(mig.LOCK, timeout=self._params["lock_timeout"])
            self._stack.enter_context(lock)
            self._locked = True

    def restarting(self) -> t.ContextManager[None]:
        """Start the services again before an error of a with statement."""
        return self.services.started_on_error(enabled=not self._check_mode)

    def waits(self, state: ResetState) -> bool:
        """Return whether to look again, after a while: GPUs are in use, and there is time left."""
        if time.monotonic() >= self._deadline or not any(gpu.users for gpu in state.gpus):
            return False
        time.sleep(POLL_SECONDS)
        return True

    def with_users(self, state: ResetState, gpus: t.Sequence[ResetGpu]) -> ResetState:
        """Return a state with the users of some of its GPUs.

        Raises:
            NodeError: if the users are not known.
        """
        asks = self._params["on_allocated"] != "ignore"
        allocations = allocated.observe(self._host) if asks else ()
        users_by_gpu = users(self._host, gpus, state.gpus, allocations, self.services.stops)
        self.advice = advice(
            [process for row in users_by_gpu.values() for process in row.processes],
            [pod for row in users_by_gpu.values() for pod in row.pods],
        )
        known = (
            gpu._replace(users=users_by_gpu[gpu.uuid].texts, servers=users_by_gpu[gpu.uuid].servers)
            if gpu.uuid in users_by_gpu
            else gpu
            for gpu in state.gpus
        )
        return state._replace(gpus=tuple(known))

    def refuse_used(self, gpus: t.Sequence[ResetGpu]) -> None:
        """Refuse GPUs that somebody has by now.

        Raises:
            Busy: if one has users, which it names.
        """
        plan.refuse_used(gpus, self._change, self.advice, None)

    def judge_used(self, gpus: t.Sequence[ResetGpu]) -> t.List[str]:
        """Return a warning of GPUs in use: in check mode what a run would do, or that they are left out.

        Raises:
            Busy: if a run is refused for now.
        """
        if not any(gpu.users for gpu in gpus):
            return []
        self.services.check()
        try:
            plan.refuse_used(gpus, self._change, self.advice, self._waited)
        except Busy as error:
            if self._params["on_busy"] != SKIP and not self._check_mode:
                raise
            return [f"{self._name}: {OUTCOMES[self._params['on_busy']]}: {error}"]
        return []


def is_on(allocation: Allocation, gpu: ResetGpu, every: t.Iterable[ResetGpu]) -> bool:
    """Return whether an allocation is on a GPU; one that is on no GPU that answers is on each that does not."""
    known = [member.devices for member in every if member.devices]
    uuids = {place.gpu for place in places(allocation, known)}
    return gpu.uuid in uuids or (not uuids and gpu.devices is None)


def _processes(host: Host, address: str, reported: t.Sequence[Process]) -> t.List[User]:
    """Return the processes that have a GPU open, also by its DRM devices, and those that NVML tells of."""
    minor = observe_node.driver_gpus(host).get(address, observe_node.DriverGpu()).minor
    folder = f"{facts.BUS}/{address}/drm"
    numbers = [host.read(f"{folder}/{name}/dev") for name in host.listdir(folder)]
    numbers += [f"{MAJOR}:{minor}"] if minor else []
    devices = frozenset(filter(None, map(parse_number, numbers)))
    users_by_pid = {user.pid: user for user in gpu_users(host, devices)}
    for process in reported:
        if process.pid not in users_by_pid:
            user = user_of(host, process.pid)
            name = process.name.rpartition("/")[2][:KERNELS]
            users_by_pid[process.pid] = user if user.program else user._replace(program=name)
    return [users_by_pid[pid] for pid in sorted(users_by_pid)]


def end_server(host: Host, gpu: ResetGpu, step: Step) -> None:
    """End an MPS server without clients.

    Raises:
        NodeError: if it does not end, since clients came meanwhile.
    """
    if gpu.devices is not None:
        with open_nvml() as nvml:
            mps.end_server(host, nvml, gpu.devices.gpu, step)
