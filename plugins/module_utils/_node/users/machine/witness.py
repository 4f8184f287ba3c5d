# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs the containers of pods have by their device nodes, whatever the kubelet remembers of them."""

from __future__ import annotations

import typing as t

from ...._base import pods
from ...._base.dra.checkpoint import PreparedClaim
from ...._base.errors import NodeError
from ...._base.gpu import MIG_MINORS, parse_minors
from ...._base.knowledge import Absent, Knowledge, Known, Unknown
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
KMSG = Device(1, 11)  # no container has it but one that has all devices of the node
START_TIME = 19  # fields of /proc/<pid>/stat after the command name: see proc_pid_stat(5)
HINT = (
    "delete this pod, or drain the node; a pod that starts after the kubelet is known to it, or set on_allocated to"
    " ignore"
)


class Container(t.NamedTuple):
    """A running container of a pod, by the pod's UID, with its processes by when they started, the first first."""

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
        """Return the GPUs and instances that can be used by these nodes.

        Of a GPU in MIG mode, its own node is of no use without that of an instance.
        """
        numbers = set(devices)
        parts = {name for number, name in self.instances.items() if number in numbers}
        divided = {name.partition("/")[0] for name in parts} | self.partitioned
        wholes = {f"nvidia{minor}" for minor in gpu_minors(numbers)}
        return sorted(parts | (wholes - divided))


def gpu_minors(devices: t.Iterable[Device]) -> t.Set[int]:
    """Return the minors of the GPUs among devices."""
    return {one.minor for one in devices if one.major == MAJOR and one.minor <= LAST_MINOR}


def unreported(
    host: Host,
    reported: t.Iterable[Allocation],
    socket: str = "",
    claims: t.Iterable[PreparedClaim] = (),
    *,
    starting: bool = False,
) -> t.Tuple[Allocation, ...]:
    """Return what running containers have of GPUs while the kubelet names nobody in their pods.

    A kubelet has forgotten nothing that started after it, so what listens at ``socket`` is not asked about that. While
    it is ``starting``, it names no pod before it has them from the API, and its checkpoint counts.

    Raises:
        NodeError: if the devices of such a container can't be read.
    """
    named = {(one.namespace, one.pod) for one in reported if is_gpu(one)}
    known = {uid for claim in claims for uid in claim.pods}
    containers = [one for one in _containers(host) if one.pod not in known]
    if not containers:
        return ()
    since, kept = _started(host, socket), _kept(host)
    folders, nodes = host.listdir(pods.LOGS), _nodes(host)
    allocations: t.List[Allocation] = []
    for container in containers:
        namespace, _slash, pod = pods.name_of(container.pod, folders).rpartition("/")
        vouched = container.pod in kept and (starting or not namespace)
        if vouched or (namespace, pod) in named:
            continue
        if isinstance(since, Known) and container.began > since.value:
            continue
        devices = _devices(host, container, nodes)
        if isinstance(devices, Unknown):
            what = f"it is not known which GPUs pod {pods.name_of(container.pod, folders)} has"
            raise NodeError(what, cause=devices.reason, hint=HINT)
        if isinstance(devices, Known):
            where = namespace, pod, container.id[:SHORT] or "unknown", UNREPORTED
            allocations += [Allocation(*where, name) for name in nodes.names(devices.value)]
    return tuple(allocations)


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
            where = uid, container.id if container else ""
            processes.setdefault(where, []).append((began.value, int(pid)))
    return [Container(*where, tuple(sorted(found))) for where, found in processes.items()]


def _began(host: Host, pid: int) -> Knowledge[int]:
    """Return when a process started, in clock ticks since the boot; Absent: it has ended."""
    fields = proc(host, str(pid), "stat").rpartition(")")[2].split()
    if len(fields) <= START_TIME or fields[0] == "Z":
        return Absent()
    return Known(int(fields[START_TIME]))


def _started(host: Host, socket: str) -> Knowledge[int]:
    """Return when the kubelet that answers now was started."""
    listener = host.listener(socket) if socket else Absent()
    return _began(host, listener.value) if isinstance(listener, Known) else listener


def _kept(host: Host) -> t.FrozenSet[str]:
    """Return the UIDs of the pods in the kubelet's own checkpoint, which it reads before it answers for all of them."""
    try:
        text = host.read(CHECKPOINT)
        return (
            frozenset(one.pod for one in checkpoint(text) if is_gpu(one)) if text else frozenset()
        )
    except NodeError:
        return frozenset()  # it vouches for nobody


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
    """Return the devices that a container was given. Absent: by its nodes it has all, as every privileged one has.

    Such a container has what a program with CUDA has open. What has all GPUs open and no CUDA, as DCGM has, watches
    GPUs, and has none.
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
    computes = any(one.major in nodes.cuda for one in opened)
    if not computes and 0 < nodes.gpus <= len(gpu_minors(opened)):
        return Absent()
    if isinstance(visible, Absent) or KMSG in visible.value:
        return Known(opened) if computes else Absent()
    return Known(visible.value | opened)
