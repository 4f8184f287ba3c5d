# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Memory limited by the driver and the kernel, on the cgroup of the pod that has the share."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from ..._shared._core.dra.names import CGROUP
from ..._shared._core.errors import NodeError
from ..._shared._core.gpu import FUNCTION_NOT_FOUND, NvmlError
from ..._shared._nvml import limits
from ..._shared._nvml.limits import NO_LIMITS, Limits
from ..._shared._nvml.real import Nvml, open_nvml
from ...tools import logs
from ...tools.chores import Worker
from ..values import Edits, Share
from . import pod_cgroup
from .opinions import Opinions

FIRST_BRANCH: Final = 615
FRESH: Final = 30.0  # seconds until the driver is asked again what it can
EVERY: Final = 5.0  # seconds between two looks at limits, each of which opens the driver
UNKNOWN: Final = "the driver has not told yet whether it limits cgroups"
Place = tuple[str, str]  # a pod's UID, and the UUID of a GPU


class Cgroup:
    """``cgroups`` is where the hierarchy is mounted. The kubelet's calls and tick() come in threads of their own."""

    name = CGROUP

    def __init__(self, cgroups: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._cgroups, self._clock = cgroups, clock
        self._lock = threading.Lock()
        self._live: dict[tuple[str, str], Share] = {}
        self._driver = Opinions("limits", self._ask_driver, FRESH, clock)
        self._worker, self._looked = Worker("limits-tick"), float("-inf")

    def problem(self, gpu_uuid: str) -> str:
        """Return why the driver or the kernel can't limit pods on a GPU, as they said last."""
        return self._kernel_problem() or self._driver.last(gpu_uuid, UNKNOWN)

    def _kernel_problem(self) -> str:
        if not pod_cgroup.unified(self._cgroups):
            return f"{self._cgroups} has cgroups of version 1, and the driver limits those of version 2"
        if pod_cgroup.read_only(self._cgroups):
            return (
                f"{self._cgroups} is read-only for this process,"
                " as ProtectControlGroups in its unit makes it"
            )
        return ""

    def _ask_driver(self, uuid: str) -> str:
        return _driver_problem(uuid, self._cgroups)

    def prepare(self, shares: Sequence[Share]) -> Edits:
        """Limit the pod to what its shares of each GPU come to, and read it back. NodeError."""
        for uuid in dict.fromkeys(one.gpu_uuid for one in shares):
            if why := self._kernel_problem() or self._driver.now(uuid):
                raise NodeError(f"pods can't be limited on {uuid}", cause=why)
        for one in shares:
            _only_pod(one)
        with self._lock:
            before = dict(self._live)
            self._live.update({(one.claim, one.share_id): one for one in shares})
            try:
                self._apply(_places(shares))
            except BaseException:
                self._live = before
                self._undo(_places(shares))
                raise
        return Edits()

    def unprepare(self, shares: Sequence[Share]) -> None:
        """Limit the pod to what it has left. A cgroup that is gone took its limits along."""
        with self._lock:
            for one in shares:
                self._live.pop((one.claim, one.share_id), None)
            self._apply(_places(shares), missing_too=True)

    def restore(self, live: Sequence[Share]) -> None:
        """Take up what lives. Limits of other cgroups are none of ours: they go with their pods."""
        with self._lock:
            self._live = {(one.claim, one.share_id): one for one in live}
        self._look()

    def tick(self) -> None:
        """Limit again whatever somebody changed. Nobody waits for the driver here."""
        now = self._clock()
        if self._live and now - self._looked >= EVERY and self._worker.start(self._look):
            self._looked = now

    def _look(self) -> None:
        try:
            with self._lock:
                self._apply(_places(self._live.values()), missing_too=True)
        except (NodeError, OSError) as error:
            logs.warning("the memory limits of pods can't be looked after", cause=error)

    def _apply(self, places: Iterable[Place], *, missing_too: bool = False) -> None:
        """Have the limits that shares come to. A cgroup is looked for in any case, a driver if there is any."""
        groups = {one: self._group(one[0], missing_too) for one in sorted(set(places))}
        if not any(groups.values()):
            return
        with open_nvml():
            for place, group in groups.items():
                if group:
                    self._limit(group, place)

    def _group(self, pod: str, missing_too: bool) -> Path | None:
        if missing_too:
            return pod_cgroup.find(self._cgroups, pod)
        group = pod_cgroup.require(self._cgroups, pod)
        pod_cgroup.enable(self._cgroups, group)
        return group

    def _limit(self, group: Path, place: Place) -> None:
        wanted, uuid = self._wanted(place), place[1]
        if limits.memory_limits(uuid, str(group)) == wanted:
            return
        limits.set_memory_limits(uuid, str(group), wanted)
        if (found := limits.memory_limits(uuid, str(group))) != wanted:
            raise NodeError(
                f"the driver did not take the memory limit of {group}",
                cause=f"{wanted.hard} bytes were asked for, {found.hard} were read back",
            )

    def _wanted(self, place: Place) -> Limits:
        """Return what a pod may have of a GPU. Nothing is guaranteed: that would stay on the cgroups above.

        Where a leaf is removed, its guarantee is not taken off its ancestors' (MPS v3 Memory Partitioning).
        """
        sums: Counter[Place] = Counter()
        for one in self._live.values():
            for pod in one.pods:
                sums[pod, one.gpu_uuid] += one.memory
        return Limits(0, sums[place]) if place in sums else NO_LIMITS

    def _undo(self, places: Iterable[Place]) -> None:
        try:
            self._apply(places, missing_too=True)
        except NodeError as error:
            logs.warning("a memory limit stays until the pod is gone", cause=error)


def _places(shares: Iterable[Share]) -> list[Place]:
    return [(pod, one.gpu_uuid) for one in shares for pod in one.pods]


def _only_pod(share: Share) -> None:
    """A claim's second pod would be limited by nobody: the kubelet does not have it prepared again."""
    if len(share.pods) != 1:
        raise NodeError(
            f"claim {share.claim} is reserved for {len(share.pods)} pods, and under cgroup it must be one",
            cause="each pod has a cgroup of its own, and limits of its own with that",
            hint="use a ResourceClaimTemplate, which gives each pod a claim",
        )


def _driver_problem(uuid: str, cgroups: Path) -> str:
    """Return why the driver can't limit cgroups, asked for at run time."""
    try:
        with open_nvml() as nvml:
            return _version_problem(nvml) or _call_problem(uuid, cgroups)
    except NodeError as error:
        return str(error)


def _version_problem(nvml: Nvml) -> str:
    version = nvml.driver_version()
    branch = version.partition(".")[0]
    if branch.isdecimal() and int(branch) < FIRST_BRANCH:
        return f"the driver is {version}, and drivers limit cgroups from {FIRST_BRANCH} on"
    return ""


def _call_problem(uuid: str, cgroups: Path) -> str:
    try:
        limits.memory_limits(uuid, str(cgroups))
    except NvmlError as error:
        if error.code == FUNCTION_NOT_FOUND:
            return f"the driver's library does not have {limits.FUNCTION}"
        raise
    return ""
