# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The devices with their users, put together from the driver, the daemon, the kubelet and MPS. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

HEADINGS: Final = ("DEVICE", "NAME", "UUID", "RESOURCE", "SHARES", "HEALTH", "MPS", "USED BY")
NOTHING: Final = "-"


@dataclass(frozen=True)
class Hardware:
    """A GPU ("0") or a MIG device ("0:1"), as the driver reports it."""

    index: str
    name: str
    uuid: str


@dataclass(frozen=True)
class Holder:
    """A container that has a device."""

    namespace: str
    pod: str
    container: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod} ({self.container})"


@dataclass(frozen=True)
class Use(Holder):
    """A holder, and how many shares of the device it has."""

    shares: int

    def __str__(self) -> str:
        return super().__str__() + (f" x{self.shares}" if self.shares > 1 else "")


@dataclass(frozen=True)
class Row(Hardware):
    """A device. ``shares`` is how many it has, 1 for a whole one, and 0 if it is not advertised.

    ``health`` is "Healthy", "Unhealthy" or empty; ``problem`` is why with its recovery, ``cause`` is why alone.
    ``mps`` is the state of its MPS daemon, if any.
    """

    resource: str = ""
    shares: int = 0
    health: str = ""
    problem: str = ""
    cause: str = ""
    mps: str = ""
    mps_clients: int = 0
    used_by: list[Use] = field(default_factory=list)


def rows(
    hardware: Iterable[Hardware],
    resources: Mapping[str, Mapping[str, Any]],
    holders: Mapping[str, Sequence[Holder]],
    mps: Iterable[Mapping[str, Any]],
) -> list[Row]:
    """Return a row for each device and resource, first the devices that the driver knows.

    ``resources`` are those of the daemon's state, ``mps`` the states of the MPS daemons.
    """
    daemons = {str(gpu["device"]): gpu for gpu in mps}
    advertised: dict[str, list[tuple[str, int, str, str, str]]] = {}
    for name, resource in resources.items():
        for uuid, health in resource["devices"].items():
            shares, why = resource["shares"].get(uuid, 1), resource["problems"].get(uuid, "")
            cause = resource.get("causes", {}).get(uuid, why)  # earlier releases do not say it
            advertised.setdefault(uuid, []).append((name, shares, health, why, cause))
    counted: dict[str, Counter[Holder]] = {}  # also of devices that are no longer advertised so
    for name, containers in holders.items():
        counted.setdefault(name.partition("::")[0], Counter()).update(containers)
    known = list(hardware)
    seen = {gpu.uuid for gpu in known}
    known += [Hardware("", "", uuid) for uuid in advertised if uuid not in seen]
    result = []
    for gpu in known:
        daemon = daemons.get(gpu.uuid, {})
        mps_state, clients = daemon.get("state", ""), daemon.get("clients", 0)
        uses = [
            Use(**asdict(holder), shares=shares)
            for holder, shares in counted.get(gpu.uuid, Counter[Holder]()).items()
        ]
        for offer in advertised.get(gpu.uuid, [("", 0, "", "", "")]):
            result.append(Row(gpu.index, gpu.name, gpu.uuid, *offer, mps_state, clients, [*uses]))
    return result


def table(devices: Sequence[Row]) -> str:
    """Return the rows for people."""
    return "\n".join(aligned([HEADINGS, *map(_cells, devices)]))


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as text in which the columns are below each other."""
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(wide[at]) for at, cell in enumerate(line)).rstrip() for line in lines
    ]


def _cells(row: Row) -> tuple[str, ...]:
    shared = row.shares > 1
    used = sum(use.shares for use in row.used_by)
    clients = f", {row.mps_clients} clients" if row.mps == "ready" else ""
    return (
        row.index or NOTHING,
        row.name or NOTHING,
        row.uuid,
        row.resource or NOTHING,
        f"{used}/{row.shares}" if shared else NOTHING,
        f"{row.health}: {row.cause}" if row.cause else row.health or NOTHING,
        f"{row.mps}{clients}" if row.mps else NOTHING,
        ", ".join(map(str, row.used_by)) or NOTHING,
    )
