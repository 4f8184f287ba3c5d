# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs of containers by their device nodes, which the kubelet may have forgotten."""

from __future__ import annotations

import typing as t

from ...._base.dra.checkpoint import PreparedClaim
from ...._base.errors import NodeError
from ...._base.gpu import MIG_MINORS, parse_minors
from ...._base.knowledge import Absent, Knowledge, Known, Unknown
from ...._base.kubelet import pods
from ...._machine.devices import Device, parse_majors
from ...._machine.host import Host
from ...machine.facts import proc
from ..allocated import UNREPORTED, Allocation, checkpoint, is_gpu
from ..users import SHORT, container_of
from .users import MAJOR, open_devices

# Whatever the kubelet's root folder.
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
GPUS, CAPABILITY_FOLDERS = "/proc/driver/nvidia/gpus", "/proc/driver/nvidia/capabilities"
CAPABILITIES, CUDA = "nvidia-caps", "nvidia-uvm"  # majors in /proc/devices
LAST_MINOR = 247  # of a GPU: the driver's other nodes have those above
KMSG = Device(1, 11)  # only a container with all devices of the node has it
START_TIME = 19  # fields of /proc/<pid>/stat after the command name: see proc_pid_stat(5)
HINT = (
    "delete this pod, or drain the node; a pod that starts after the kubelet is known to it, or set on_allocated to"
    " ignore"
)

Key = t.TypeVar("Key", t.Tuple[str, str], str)


class Container(t.NamedTuple):
    """A running container of a pod, by the pod's UID, with its processes in the order in which they started."""

    pod: str
    id: str
    processes: t.Tuple[t.Tuple[int, int], ...]

    @property
    def began(self) -> int:
        """Return when it started, in clock ticks since the boot."""
        return self.processes[0][0]

    @property
    def pids(self) -> t.List[int]:
        """Return its processes."""
        return [pid for _began, pid in self.processes]


class Nodes(t.NamedTuple):
    """The numbers of the driver's devices: ``instances`` are GPU instances, such as nvidia0/gi1, by their number.

    ``partitioned`` are the GPUs that have instances, such as nvidia0.
    """

    instances: t.Mapping[Device, str]
    cuda: t.FrozenSet[int]
    gpus: int
    partitioned: t.FrozenSet[str]

    def names(self, devices: t.Iterable[Device]) -> t.List[str]:
        """Return the GPUs and instances that can be used through these nodes.

        The node of a GPU in MIG mode is of no use without that of an instance.
        """
        numbers = set(devices)
        parts = {name for number, name in self.instances.items() if number in numbers}
        divided = {name.partition("/")[0] for name in parts} | self.partitioned
        wholes = {f"nvidia{minor}" for minor in gpu_minors(numbers)}
        return sorted(parts | (wholes - divided))


def gpu_minors(devices: t.Iterable[Device]) -> t.Set[int]:
    """Return the minors of the GPUs among devices."""
    return {
        device.minor for device in devices if device.major == MAJOR and device.minor <= LAST_MINOR
    }


class Answers(t.NamedTuple):
    """The containers that the kubelet knows to have GPUs, and the GPUs and instances of claims.

    Attributes:
        containers: Names of containers that it reports, by namespace and name of their pods.
        recorded: Names of containers in its checkpoint, by the UID of their pods.
        claimed: GPUs and instances of claims, by the UID of their pods.
    """

    containers: t.Mapping[t.Tuple[str, str], t.FrozenSet[str]]
    recorded: t.Mapping[str, t.FrozenSet[str]]
    claimed: t.Mapping[str, t.FrozenSet[str]]


class PodNames(t.NamedTuple):
    """The names of pods and containers by the kubelet's folders of logs."""

    pods: t.Sequence[str]
    containers: t.Mapping[str, str]

    @classmethod
    def read(cls, host: Host) -> PodNames:
        """Read the names; a container without a log has none."""
        links = map(pods.CONTAINER_LOG.fullmatch, host.listdir(pods.CONTAINER_LOGS))
        return cls(host.listdir(pods.LOGS), {link[2]: link[1] for link in links if link})


def unreported(
    host: Host,
    reported: t.Iterable[Allocation],
    socket: str = "",
    claims: t.Iterable[PreparedClaim] = (),
    *,
    starting: bool = False,
) -> t.Tuple[Allocation, ...]:
    """Return the GPUs and instances of running containers that neither the kubelet nor a claim reports.

    The kubelet that listens at ``socket`` knows all containers that started after it. While it is ``starting``, it
    reports no pod before it has read the pods from the API, and its checkpoint counts.

    Raises:
        NodeError: if the devices of such a container can't be read.
    """
    containers = _containers(host)
    if not containers:
        return ()
    named = _grouped(
        ((allocation.namespace, allocation.pod), allocation.container)
        for allocation in reported
        if is_gpu(allocation)
    )
    answers = Answers(named, _recorded(host), _claimed(claims))
    names, nodes = PodNames.read(host), _nodes(host)
    listener = host.listener(socket) if socket else Absent()
    since = _began(host, listener.value) if isinstance(listener, Known) else Absent()
    allocations: t.List[Allocation] = []
    for container in containers:
        if _is_reported(container, names, answers, starting=starting):
            continue
        if isinstance(since, Known) and container.began > since.value:
            continue
        name, devices = pods.name_of(container.pod, names.pods), _devices(host, container, nodes)
        if isinstance(devices, Unknown):
            unknown = f"it is not known which GPUs pod {name} has"
            raise NodeError(unknown, cause=devices.reason, hint=HINT)
        if isinstance(devices, Known):
            namespace, _slash, pod = name.rpartition("/")
            holder = namespace, pod, container.id[:SHORT] or "unknown", UNREPORTED
            claimed = answers.claimed.get(container.pod, frozenset())
            held = (device for device in nodes.names(devices.value) if device not in claimed)
            allocations += [Allocation(*holder, device) for device in held]
    return tuple(allocations)


def _is_reported(
    container: Container, names: PodNames, answers: Answers, *, starting: bool
) -> bool:
    """Return whether the kubelet reports a container.

    When it restarts a container, it allocates devices to it again, and reports no other container of that pod then. A
    container without a name is reported if one of its pod is.
    """
    namespace, _slash, pod = pods.name_of(container.pod, names.pods).rpartition("/")
    name = names.containers.get(container.id)
    if _includes(name, answers.containers.get((namespace, pod), frozenset())):
        return True
    is_recorded = _includes(name, answers.recorded.get(container.pod, frozenset()))
    return is_recorded and (starting or not namespace)


def _includes(name: t.Optional[str], containers: t.FrozenSet[str]) -> bool:
    return bool(containers) if name is None else name in containers


def _claimed(claims: t.Iterable[PreparedClaim]) -> t.Dict[str, t.FrozenSet[str]]:
    """Return the GPUs and instances of claims, by the UID of their pods."""
    return _grouped(
        (uid, f"nvidia{device.minor}" + (f"/gi{device.instance.gi}" if device.instance else ""))
        for claim in claims
        for uid in claim.pods
        for device in claim.devices
    )


def _grouped(pairs: t.Iterable[t.Tuple[Key, str]]) -> t.Dict[Key, t.FrozenSet[str]]:
    groups: t.Dict[Key, t.Set[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, set()).add(value)
    return {key: frozenset(values) for key, values in groups.items()}


def _containers(host: Host) -> t.List[Container]:
    init = proc(host, "1", "cgroup")
    processes: t.Dict[t.Tuple[str, str], t.List[t.Tuple[int, int]]] = {}
    for pid in host.listdir("/proc"):
        if not pid.isdigit():
            continue
        cgroup = proc(host, pid, "cgroup")
        uid, began = pods.uid_of(cgroup, init), _began(host, int(pid))
        if uid and isinstance(began, Known):
            container = container_of(pods.paths(cgroup, init))
            key = uid, container.id if container else ""
            processes.setdefault(key, []).append((began.value, int(pid)))
    return [Container(*key, tuple(sorted(process))) for key, process in processes.items()]


def _began(host: Host, pid: int) -> Knowledge[int]:
    """Return when a process started, in clock ticks since the boot; Absent if it has ended."""
    fields = proc(host, str(pid), "stat").rpartition(")")[2].split()
    if len(fields) <= START_TIME or fields[0] == "Z":
        return Absent()
    return Known(int(fields[START_TIME]))


def _recorded(host: Host) -> t.Dict[str, t.FrozenSet[str]]:
    """Return the containers in the kubelet's own checkpoint by their pods' UIDs.

    The kubelet reads it before it reports any of them.
    """
    try:
        text = host.read(CHECKPOINT)
        entries = checkpoint(text) if text else ()
    except NodeError:
        return {}  # it can't be read, so it reports no container
    return _grouped((entry.pod, entry.container) for entry in entries if is_gpu(entry))


def _nodes(host: Host) -> Nodes:
    listed = host.read("/proc/devices")
    instances = {
        Device(major, minor): f"nvidia{name[3:].rpartition('/')[0]}"
        for major in parse_majors(listed, CAPABILITIES, exact=True)
        for name, minor in parse_minors(host.read(MIG_MINORS) or "").items()
        if name.startswith("gpu") and name.count("/") == 2  # gpu0/gi1/access
    }
    folders = host.listdir(CAPABILITY_FOLDERS)
    partitioned = [name for name in folders if host.listdir(f"{CAPABILITY_FOLDERS}/{name}/mig")]
    return Nodes(
        instances,
        parse_majors(listed, CUDA, exact=True),
        len(host.listdir(GPUS)),
        frozenset(f"nvidia{name[3:]}" for name in partitioned if name.startswith("gpu")),
    )


def _devices(host: Host, container: Container, nodes: Nodes) -> Knowledge[t.FrozenSet[Device]]:
    """Return the devices of a container; Absent if it has no device of its own.

    A privileged container has the nodes of all devices, and counts only with the devices that a program with CUDA has
    open. A program that has all GPUs open without CUDA, such as DCGM, only monitors them.
    """
    visible = host.devices_in_dev(container.pids[0])
    if isinstance(visible, Unknown):
        return visible
    by_process = []
    for pid in container.pids:
        try:
            by_process.append(open_devices(host, pid))
        except OSError as error:
            return Unknown(f"the open files of process {pid} can't be read: {error.strerror}")
    opened: t.FrozenSet[Device] = frozenset().union(*by_process)
    computes = any(node.major in nodes.cuda for node in opened)
    if not computes and 0 < nodes.gpus <= len(gpu_minors(opened)):
        return Absent()
    if isinstance(visible, Absent) or KMSG in visible.value:
        return Known(opened) if computes else Absent()
    return Known(visible.value | opened)
