# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Memory limited by the driver and the kernel, on the cgroup of the pod that has the share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from ..._shared._base.dra.names import CGROUP
from ..._shared._base.errors import InputError, NodeError
from ..._shared._base.gpu import FUNCTION_NOT_FOUND, NvmlError
from ..._shared._base.kubelet.pods import UID
from ..._shared._machine.nvml import limits
from ..._shared._machine.nvml.limits import NO_LIMITS, Limits
from ..._shared._machine.nvml.real import open_nvml
from ...tools import logs
from ...tools.chores import Tries, Worker
from ...tools.files import failing
from ..users import Users
from ..values import Edits, Enforcement, Share
from .queries import Queries

FIRST_BRANCH: Final = 615
FRESH: Final = 30.0  # seconds until the driver is asked again what it can
EVERY: Final = 5.0  # seconds between two looks at limits, each of which opens the driver
# Of a pod that came to a claim later, in bytes: whether 0 is no limit to a driver nobody says.
NOTHING: Final = 1 << 20
UNKNOWN: Final = "the driver has not told yet whether it limits cgroups"
# Where a pod's cgroup may be, by its UID: the kubelet makes it before it has claims prepared.
QUALITIES: Final = ("", "burstable", "besteffort")
ROOTS: Final = ("", "kubelet")  # the latter where the node is a container itself, as with kind
CAPACITY, MOST, ENABLED = "dmem.capacity", "dmem.max", "cgroup.subtree_control"
Place = tuple[str, str]  # a pod's UID, and the UUID of a GPU


class Cgroup(Enforcement):
    """Limits on pods. The first pod of a claim has its memory, so that a claim never takes more than its amount.

    The kubelet's calls and tick() come in threads of their own.

    Args:
        cgroups: Where the hierarchy is mounted.
        users: Which pods have a claim.
    """

    name = CGROUP

    def __init__(self, cgroups: Path, users: Users) -> None:
        self._cgroups, self._users = cgroups, users
        self._lock = threading.Lock()
        self._live: dict[tuple[str, str], Share] = {}
        # Of each claim, in the order in which they came.
        self._pods: dict[str, tuple[str, ...]] = {}
        self._seen: object = None  # of what the kubelet tells
        self._driver = Queries("limits", self._ask_driver, FRESH)
        self._worker, self._looked = Worker("limits-tick"), float("-inf")

    def problem(self, gpu_uuid: str) -> str:
        """Return why the driver or the kernel can't limit pods on a GPU, by their last answers."""
        return self._kernel_problem() or self._driver.last_answer(gpu_uuid, UNKNOWN)

    def _kernel_problem(self) -> str:
        if not (self._cgroups / "cgroup.controllers").exists():
            return f"{self._cgroups} has cgroups of version 1, and the driver limits those of version 2"
        if os.statvfs(self._cgroups).f_flag & os.ST_RDONLY:
            return (
                f"{self._cgroups} is read-only for this process,"
                " as ProtectControlGroups in its unit makes it"
            )
        return ""

    def _ask_driver(self, uuid: str) -> str:
        """Return why the driver can't limit cgroups, asked for at run time."""
        try:
            with open_nvml() as nvml:
                version = nvml.driver_version()
                branch = version.partition(".")[0]
                if branch.isdecimal() and int(branch) < FIRST_BRANCH:
                    return (
                        f"the driver is {version}, and drivers limit cgroups from {FIRST_BRANCH} on"
                    )
                return _call_problem(uuid, self._cgroups)
        except NodeError as error:
            return str(error)

    def prepare(self, shares: Sequence[Share]) -> Edits:
        """Limit pods to what their shares of each GPU come to, and read it back."""
        for uuid in dict.fromkeys(share.gpu_uuid for share in shares):
            if why := self._kernel_problem() or self._driver.answer(uuid):
                raise NodeError(f"pods can't be limited on {uuid}", cause=why)
        with self._lock:
            before = dict(self._live), self._pods
            self._live.update({(share.claim, share.share_id): share for share in shares})
            self._follow()
            places = self._places(shares)
            try:
                self._apply(places, {_first(share.claim, self._pods_of(share)) for share in shares})
            except BaseException:
                self._live, self._pods = before
                try:
                    self._apply(places)
                except NodeError as error:
                    logs.warning("a memory limit stays until the pod is gone", cause=error)
                raise
        return Edits()

    def unprepare(self, shares: Sequence[Share]) -> None:
        """Limit pods to what they have left. A cgroup that is gone took its limits along."""
        with self._lock:
            places = self._places(shares)
            for share in shares:
                self._live.pop((share.claim, share.share_id), None)
                self._pods.pop(share.claim, None)
            self._apply(places)

    def restore(self, live: Sequence[Share]) -> None:
        """Restore the limits of these shares, which tick() maintains. Limits of other cgroups go with them."""
        with self._lock:
            self._live = {(share.claim, share.share_id): share for share in live}

    def tick(self) -> None:
        """Limit again if a limit was changed, and limit new pods. Nobody waits for the driver here."""
        moment, seen = time.monotonic(), self._users.stamp()
        due = moment - self._looked >= EVERY or seen != self._seen
        if self._live and due and self._worker.start(self._look):
            self._looked, self._seen = moment, seen

    def _look(self) -> None:
        try:
            with self._lock:
                self._follow()
                self._apply(self._places(self._live.values()))
        except (NodeError, OSError) as error:
            logs.warning("the memory limits of pods can't be looked after", cause=error)

    def _follow(self) -> None:
        """Note which pods came to claims, and which ended. A claim that the kubelet does not have keeps its pods."""
        try:
            users = self._users.read()
        except (NodeError, OSError) as error:
            logs.warning("which pods have which claims is not known", cause=error)
            users = {}
        pods: dict[str, tuple[str, ...]] = {}
        for share in self._live.values():
            before = self._pods.get(share.claim, share.pods)
            pods_now = users.get(share.claim) or frozenset(before)
            pods[share.claim] = (
                *(pod for pod in before if pod in pods_now),
                *sorted(pods_now.difference(before)),
            )
            for pod in set(pods[share.claim][1:]).difference(self._pods.get(share.claim, ())):
                logs.warning("a claim's memory is another pod's", claim=share.claim, pod=pod)
        self._pods = pods

    def _pods_of(self, share: Share) -> tuple[str, ...]:
        return self._pods.get(share.claim, share.pods)

    def _places(self, shares: Iterable[Share]) -> list[Place]:
        return [(pod, share.gpu_uuid) for share in shares for pod in self._pods_of(share)]

    def _apply(self, places: Iterable[Place], required: Collection[str] = ()) -> None:
        """Set the limits that shares come to. The driver is asked only if there is any cgroup.

        Each is tried, and the first failure is raised at the end: also of a ``required`` pod without a cgroup.
        """
        groups: dict[Place, Path] = {}
        tries = Tries()
        for place in sorted(set(places)):
            with tries:
                look = require if place[0] in required else find
                if group := look(self._cgroups, place[0]):
                    enable(self._cgroups, group)
                    groups[place] = group
        if groups:
            with open_nvml():
                for place, group in groups.items():
                    with tries:
                        self._limit(group, place)
        tries.check()

    def _limit(self, group: Path, place: Place) -> None:
        """Set the limit of a pod on a GPU.

        Nothing is guaranteed: where a leaf is removed, its guarantee is not taken off its ancestors' (MPS v3 Memory
        Partitioning).
        """
        pod, uuid = place
        shares = [
            share
            for share in self._live.values()
            if share.gpu_uuid == uuid and pod in self._pods_of(share)
        ]
        memory = sum(share.memory for share in shares if self._pods_of(share)[0] == pod)
        desired = Limits(0, max(memory, NOTHING)) if shares else NO_LIMITS
        if limits.memory_limits(uuid, str(group)) == desired:
            return
        limits.set_memory_limits(uuid, str(group), desired)
        if (current := limits.memory_limits(uuid, str(group))) != desired:
            raise NodeError(
                f"the driver did not take the memory limit of {group}",
                cause=f"{desired.hard} bytes were asked for, {current.hard} were read back",
            )


def _first(claim: str, pods: Sequence[str]) -> str:
    """Return the pod that has a claim's memory; an error if nobody would be limited."""
    if not pods:
        raise NodeError(
            f"no pod is known that has claim {claim}",
            cause="neither the kubelet nor the claim names one, and limits are on pods' cgroups",
        )
    return pods[0]


def _call_problem(uuid: str, cgroups: Path) -> str:
    try:
        limits.memory_limits(uuid, str(cgroups))
    except NvmlError as error:
        if error.code == FUNCTION_NOT_FOUND:
            return f"the driver's library does not have {limits.FUNCTION}"
        raise
    return ""


def candidates(uid: str) -> Iterator[str]:
    """Yield where a pod's cgroup may be below the hierarchy's root, by cgroup driver and quality. Pure.

    Raises:
        InputError: if it isn't the UID of a pod that can have claims.
    """
    if not UID.fullmatch(uid):
        raise InputError.of("pod", uid, "a UID")
    for root in ROOTS:
        parents = [[*filter(None, (root, "kubepods", quality))] for quality in QUALITIES]
        for names in parents:  # systemd knows a slice's parents by the dashes in its name
            slices = [*names, f"pod{uid.replace('-', '_')}"]
            yield "/".join(f"{'-'.join(slices[: n + 1])}.slice" for n in range(len(slices)))
        for names in parents:  # cgroupfs
            yield "/".join([*names, f"pod{uid}"])


def find(cgroups: Path, uid: str) -> Path | None:
    """Return a pod's cgroup, None if it has none any more."""
    paths = (cgroups / candidate for candidate in candidates(uid))
    return next((path for path in paths if path.is_dir()), None)


def require(cgroups: Path, uid: str) -> Path:
    """Return a pod's cgroup.

    Raises:
        NodeError: if it has none.
    """
    if group := find(cgroups, uid):
        return group
    raise NodeError(
        f"pod {uid} has no cgroup",
        cause=f"there is none of its UID below {cgroups}/kubepods.slice or {cgroups}/kubepods",
        hint="let the kubelet make them (cgroupsPerQOS), with cgroupRoot / in its configuration",
    )


def enable(cgroups: Path, group: Path) -> None:
    """Switch on the controller of devices' memory for a cgroup, if the kernel has it. That limits nothing.

    It has to be on in each cgroup above.

    Raises:
        NodeError: if it can't be switched on.
    """
    if not (cgroups / CAPACITY).exists():
        return
    for parent in reversed([*group.relative_to(cgroups).parents]):
        above = cgroups / parent
        below = above / group.relative_to(above).parts[0]
        if not (below / MOST).exists():
            with failing(f"the controller dmem can't be switched on in {above}"):
                _write(above / ENABLED, "+dmem")


def _write(path: Path, text: str) -> None:
    """Write a file of the kernel's in one call; it is never created."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
