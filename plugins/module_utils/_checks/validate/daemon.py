# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin's report on itself and on what runs beside it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.text.json_data import is_whole, rows, table, table_in, text
from ..._device_plugin.held import HELD
from ..._device_plugin.resources import UNHEALTHY, count

SERVING = "serving"


class Resource(t.NamedTuple):
    """A resource: how many healthy devices it has, and whether the kubelet has registered it."""

    healthy: int = 0
    registered: bool = False


class Labels(t.NamedTuple):
    """What the process that labels the node says: its state, why, and the labels that it wants."""

    state: str = ""
    problem: str = ""
    labels: t.Mapping[str, str] = {}


class Mps(t.NamedTuple):
    """A device that is shared by MPS: why its daemon is not ready, and whether that is its clients' time to end."""

    device: str
    problem: str = ""
    waits_for_clients: bool = False


class Mount(t.NamedTuple):
    """A path of the node in a container."""

    inside: str
    outside: str
    read_only: bool = False


class Share(t.NamedTuple):
    """A share that nobody uses of a device that is shared by MPS, and what a container with it gets."""

    device: str
    env: t.Mapping[str, str]
    mounts: t.Tuple[Mount, ...]


class MigReport(t.NamedTuple):
    """The MIG devices that the device plugin knows, and the state of the layout that was made at boot."""

    uuids: t.Tuple[str, ...] = ()
    boot_state: str = ""
    boot_problems: t.Tuple[str, ...] = ()


class CdiReport(t.NamedTuple):
    """The CDI specification that is kept; ``devices`` are None where nothing keeps one."""

    path: str = ""
    failed: bool = False
    devices: t.Optional[t.Tuple[str, ...]] = None
    missing: t.Tuple[str, ...] = ()


class KubeletReport(t.NamedTuple):
    """The number of devices of each resource that the kubelet can allocate, or the ``problem`` why it does not say."""

    registration_problem: str = ""
    allocatable: t.Mapping[str, int] = {}
    problem: str = ""


NO_MIG, NO_CDI, NO_KUBELET = MigReport(), CdiReport(), KubeletReport()


@dataclasses.dataclass(frozen=True)
class PluginReport:
    """The answer of ``gpu-plugin status``; what is in quarantine is not among the ``unhealthy``.

    ``labels`` are None where no process writes them. ``used`` are the devices, by UUID, that pods or an MPS daemon
    have, and ``waiting`` are those that are given to nobody until pods or clients of MPS have ended. ``free_shares``
    are shares of those that MPS has.
    """

    state: str = ""
    problem: str = ""
    resources: t.Mapping[str, Resource] = dataclasses.field(default_factory=dict)
    unhealthy: t.Tuple[str, ...] = ()
    waiting: t.Tuple[str, ...] = ()
    used: t.FrozenSet[str] = frozenset()
    kubelet: KubeletReport = NO_KUBELET
    mig: MigReport = NO_MIG
    cdi: CdiReport = NO_CDI
    mps: t.Tuple[Mps, ...] = ()
    free_shares: t.Tuple[Share, ...] = ()
    labels: t.Optional[Labels] = None

    @classmethod
    def from_answer(cls, answer: str) -> PluginReport:
        """Read the answer of ``gpu-plugin status --json``, also one of another version or cut short."""
        report = table_in(answer)
        boot, cdi = table(report.get("mig_boot")), table(report.get("cdi"))
        mps = tuple(_mps(table(report.get("mps"))))
        devices, hardware = (map(table, rows(report.get(key))) for key in ("devices", "hardware"))
        waits = {text(device.get("uuid")) for device in devices if device.get("reason") == HELD}
        waits |= {device.device for device in mps if device.waits_for_clients}
        used = [gpu for gpu in hardware if gpu.get("used_by") or gpu.get("mps")]
        aside = set(_set_aside(report))
        resources, allocatable = table(report.get("resources")), table(report.get("allocatable"))
        return cls(
            state=text(report.get("state")),
            problem=text(report.get("problem")),
            resources={name: _resource(table(row)) for name, row in resources.items()},
            unhealthy=tuple(_unhealthy(resources, lambda uuid: uuid not in waits | aside)),
            waiting=tuple(_unhealthy(resources, lambda uuid: uuid in waits - aside)),
            used=frozenset(text(gpu.get("uuid")) for gpu in used),
            kubelet=KubeletReport(
                text(report.get("registration_problem")),
                {name: count for name, count in allocatable.items() if is_whole(count)},
                text(report.get("kubelet_problem")),
            ),
            mig=MigReport(
                _texts(report.get("mig_uuids")),
                text(boot.get("state")),
                _texts(boot.get("problems")),
            ),
            cdi=CdiReport(
                text(cdi.get("path")),
                bool(cdi.get("failed")),
                _texts(cdi.get("devices")) if cdi else None,
                _texts(cdi.get("missing")),
            ),
            mps=mps,
            free_shares=tuple(_shares(report.get("mps_shares"))),
            labels=_labels(report.get("labels")),
        )

    @property
    def unregistered(self) -> t.List[str]:
        """Return the resources that no kubelet has registered."""
        return [name for name, resource in self.resources.items() if not resource.registered]


def _resource(report: t.Mapping[str, t.Any]) -> Resource:
    healthy = count(report) - count(report, UNHEALTHY)
    return Resource(healthy, report.get("registered") is not False)


def _set_aside(report: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Return the devices of what is in quarantine: GPUs, and MIG devices, whose index begins with that of their GPU."""
    told = table(report.get("quarantine"))
    gpus = dict(map(_pair, rows(report.get("gpu_indices")), rows(report.get("gpu_uuids"))))
    for one in map(table, rows(report.get("devices"))):
        gpu = gpus.get(text(one.get("index")).partition(":")[0])
        if told.get("node") or gpu in table(told.get("gpus")):
            yield text(one.get("uuid"))


def _pair(index: t.Any, uuid: t.Any) -> t.Tuple[str, str]:
    return text(index), text(uuid)


def _unhealthy(resources: t.Mapping[str, t.Any], which: t.Callable[[str], bool]) -> t.Iterator[str]:
    for resource, report in resources.items():
        problems = table(table(report).get("problems"))
        for device, health in table(table(report).get("devices")).items():
            if health == UNHEALTHY and which(device):
                problem = text(problems.get(device))
                yield f"{resource} {device}: {problem}" if problem else f"{resource} {device}"


def _mps(devices: t.Mapping[str, t.Any]) -> t.Iterator[Mps]:
    for device, told in devices.items():
        one = table(told)
        yield Mps(device, text(one.get("problem")), one.get("waits_for_clients") is True)


def _shares(shares: t.Any) -> t.Iterator[Share]:
    for share in map(table, rows(shares)):
        env = {str(key): str(value) for key, value in table(share.get("env")).items()}
        mounts = tuple(
            Mount(
                text(each.get("inside")), text(each.get("outside")), each.get("read_only") is True
            )
            for each in map(table, rows(share.get("mounts")))
        )
        if env and all(mount.inside and mount.outside for mount in mounts):
            yield Share(text(share.get("device")), env, mounts)


def _labels(told: t.Any) -> t.Optional[Labels]:
    if not isinstance(told, dict):
        return None
    labels = {key: str(one) for key, one in table(told.get("labels")).items()}
    return Labels(text(told.get("state")), text(told.get("problem")), labels)


def _texts(value: t.Any) -> t.Tuple[str, ...]:
    return tuple(map(str, rows(value)))
