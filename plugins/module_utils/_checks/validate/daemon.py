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
        devices, hardware = (
            [table(row) for row in rows(report.get(key))] for key in ("devices", "hardware")
        )
        mps = tuple(
            Mps(device, text(row.get("problem")), row.get("waits_for_clients") is True)
            for device, row in _tables(report.get("mps"))
        )
        set_aside = _set_aside(report, devices)
        waits = {text(device.get("uuid")) for device in devices if device.get("reason") == HELD}
        waits |= {device.device for device in mps if device.waits_for_clients}
        resources, labels = _tables(report.get("resources")), report.get("labels")
        problems = list(_problems(resources))
        return cls(
            state=text(report.get("state")),
            problem=text(report.get("problem")),
            resources={
                name: Resource(
                    count(row) - count(row, UNHEALTHY), row.get("registered") is not False
                )
                for name, row in resources
            },
            unhealthy=tuple(line for uuid, line in problems if uuid not in waits | set_aside),
            waiting=tuple(line for uuid, line in problems if uuid in waits - set_aside),
            used=frozenset(
                text(gpu.get("uuid")) for gpu in hardware if gpu.get("used_by") or gpu.get("mps")
            ),
            kubelet=KubeletReport(
                text(report.get("registration_problem")),
                {
                    name: number
                    for name, number in table(report.get("allocatable")).items()
                    if is_whole(number)
                },
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
            labels=Labels(
                text(labels.get("state")),
                text(labels.get("problem")),
                {key: str(value) for key, value in table(labels.get("labels")).items()},
            )
            if isinstance(labels, dict)
            else None,
        )

    @property
    def unregistered(self) -> t.List[str]:
        """Return the resources that no kubelet has registered."""
        return [name for name, resource in self.resources.items() if not resource.registered]


def _tables(value: t.Any) -> t.List[t.Tuple[str, t.Mapping[str, t.Any]]]:
    return [(name, table(row)) for name, row in table(value).items()]


def _set_aside(
    report: t.Mapping[str, t.Any], devices: t.Sequence[t.Mapping[str, t.Any]]
) -> t.Set[str]:
    """Return the UUIDs of the devices in quarantine: GPUs, and their MIG devices, whose index begins with theirs."""
    quarantine = table(report.get("quarantine"))
    indices, uuids = (map(text, rows(report.get(f"gpu_{key}"))) for key in ("indices", "uuids"))
    gpus = dict(zip(indices, uuids))  # noqa: B905
    return {
        text(device.get("uuid"))
        for device in devices
        if quarantine.get("node")
        or gpus.get(text(device.get("index")).partition(":")[0]) in table(quarantine.get("gpus"))
    }


def _problems(
    resources: t.Iterable[t.Tuple[str, t.Mapping[str, t.Any]]],
) -> t.Iterator[t.Tuple[str, str]]:
    """Yield the unhealthy devices of resources, each with a line that has its problem."""
    for resource, report in resources:
        problems = table(report.get("problems"))
        for device, health in table(report.get("devices")).items():
            if health == UNHEALTHY:
                problem = text(problems.get(device))
                suffix = f": {problem}" if problem else ""
                yield device, f"{resource} {device}{suffix}"


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


def _texts(value: t.Any) -> t.Tuple[str, ...]:
    return tuple(map(str, rows(value)))
