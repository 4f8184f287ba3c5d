# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Devices of pods, from the kubelet, or from its checkpoint if it does not answer."""

from __future__ import annotations

import dataclasses
import typing as t

from ...._base.boot import PROGRAM
from ...._base.dra.checkpoint import load
from ...._base.dra.names import CHECKPOINT as CLAIMS_HELD
from ...._base.dra.names import DRIVER, NVIDIA
from ...._base.errors import NodeError
from ...._base.knowledge import Absent, Knowledge, Known, Unknown
from ...._base.kubelet import pods
from ...._machine.host import Host
from ..allocated import ROOTS, SOCKET, Allocation, checkpoint, claims, is_gpu, parse
from .witness import CHECKPOINT, unreported

CLAIMS = "dra_manager_state"
SECONDS = 20.0
DRIVERS = (NVIDIA, DRIVER)
UNTOLD = (
    "the node has claims of {}, of which the kubelet does not tell: it does from Kubernetes 1.34 on, or with the"
    " feature gate KubeletPodResourcesDynamicResources"
)
HINT = (
    "start the kubelet, run gpu.node.gpu_nodes so that gpu-plugin is there to ask it, and run again; or drain the node"
    " and set on_allocated to ignore"
)


def observe(host: Host) -> t.Tuple[Allocation, ...]:
    """Return the GPUs and instances of pods, also if the kubelet has forgotten them.

    Raises:
        NodeError: if there is a kubelet, or a container, and its devices are not known.
    """
    answer = _observe(host)
    if isinstance(answer, Unknown):
        unknown = "it is not known which pods have GPUs, and nothing is taken from them"
        raise NodeError(unknown, cause=answer.reason, hint=HINT)
    reported = [*filter(is_gpu, answer.value)] if isinstance(answer, Known) else []
    claims_text = host.read(CLAIMS_HELD)
    return (
        *of_pods_that_run(host, reported),
        *claims(claims_text, reported),
        *unreported(host, reported, socket(host), load(claims_text).values()),
    )


def socket(host: Host) -> str:
    """Return the kubelet's PodResources socket, empty if there is none."""
    sockets = (f"{root}/{SOCKET}" for root in ROOTS)
    return next((path for path in sockets if host.exists(path)), "")


def of_pods_that_run(host: Host, allocations: t.Sequence[Allocation]) -> t.Tuple[Allocation, ...]:
    """Return the allocations without those of pods that have ended, which kubelets before 1.34 report."""
    if not allocations:
        return ()
    running, folders = running_pods(host), host.listdir(pods.LOGS)
    booted = pods.boot_time(host.read("/proc/stat"))
    ended = set()
    for name in {(allocation.namespace, allocation.pod) for allocation in allocations}:
        logs = pods.folders_of(*name, folders)
        started = booted is not None and any(_logged(host, log, booted) for log in logs)
        if pods.ended(map(pods.uid_in, logs), running, started=started):
            ended.add(name)
    return tuple(
        allocation
        for allocation in allocations
        if (allocation.namespace, allocation.pod) not in ended
    )


def _observe(host: Host) -> Knowledge[t.Tuple[Allocation, ...]]:
    problem = ""
    for root in ROOTS:
        socket = f"{root}/{SOCKET}"
        if host.exists(socket):
            try:
                answer = _asked(host, socket)
            except NodeError as error:
                problem = str(error)
                continue
            names_driver = any(
                driver in allocation.resource for driver in DRIVERS for allocation in answer
            )
            drivers = _claims(host)
            return Known(answer) if names_driver or not drivers else Unknown(UNTOLD.format(drivers))
    return _from_disk(host, problem)


def _claims(host: Host) -> str:
    """Return the drivers of GPUs whose claims the kubelet has prepared, by its file of claims."""
    text = "".join(host.read(f"{root}/{CLAIMS}") or "" for root in ROOTS)
    return " and ".join(driver for driver in DRIVERS if driver in text)


def _asked(host: Host, socket: str) -> t.Tuple[Allocation, ...]:
    argv = [PROGRAM, "pods", "--json", "--pod-resources", socket]
    completed = host.run(argv, check=False, timeout=SECONDS)
    if completed.rc:
        output = (completed.err or completed.out).strip().splitlines()[-1:]
        raise NodeError("the kubelet can't be asked", cause="".join(output))
    return parse(completed.out)


def _from_disk(host: Host, problem: str) -> Knowledge[t.Tuple[Allocation, ...]]:
    """Return the allocations in the kubelet's checkpoint; Unknown if there are claims."""
    text = host.read(CHECKPOINT)
    drivers = _claims(host)
    if drivers:
        return Unknown(f"the node has claims of {drivers}; {problem}")
    if text is None:
        return Absent()
    folders = host.listdir(pods.LOGS)
    try:
        # Those of pods that are gone stay in it until the kubelet's next allocation.
        allocations = []
        for allocation in checkpoint(text):
            if any(host.exists(f"{root}/pods/{allocation.pod}") for root in ROOTS):
                namespace, _slash, pod = pods.name_of(allocation.pod, folders).rpartition("/")
                allocations.append(dataclasses.replace(allocation, namespace=namespace, pod=pod))
        return Known(tuple(allocations))
    except NodeError as error:
        return Unknown("; ".join(filter(None, (str(error), problem))))


def running_pods(host: Host) -> t.FrozenSet[str]:
    """Return the UIDs of the pods that have a process."""
    init = host.read("/proc/1/cgroup")
    uids = set()
    for name in host.listdir("/proc"):
        if name.isdigit():
            try:
                uids.add(pods.uid_of(host.read(f"/proc/{name}/cgroup"), init))
            except NodeError:
                continue  # it has ended meanwhile
    return frozenset(uids - {""})


def _logged(host: Host, folder: str, since: float) -> bool:
    """Return whether a container of a pod has written a log since a time."""
    root = f"{pods.LOGS}/{folder}"
    containers = (f"{root}/{name}" for name in host.listdir(root))
    logs = (f"{container}/{name}" for container in containers for name in host.listdir(container))
    return any((host.mtime(path) or 0.0) > since for path in logs)
