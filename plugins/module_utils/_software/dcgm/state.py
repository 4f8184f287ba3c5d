# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is desired of DCGM and its exporter, what the node has of them, and what earlier runs added."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.errors import InputError
from ..._base.packages import package
from ..._driver.desired import LOCATION, SHA256
from ..._driver.packages.components import cuda, dcgm
from .. import plan

ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):\d{1,5}")
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+.-]+")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~:^_-]*")
PATH = re.compile(r"/[A-Za-z0-9._/+-]+")
BINARY = (
    ("location", LOCATION, "a path on the node, or an http(s) address"),
    ("sha256", SHA256, "64 hexadecimal digits, the SHA-256 of the program"),
)
PACKAGED = (
    ("package", PACKAGE, "the name of a package"),
    ("version", VERSION, "the version of the package, as nothing is installed unpinned"),
)
RESOURCE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")
Properties = t.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Exporter:
    """The exporter: a program with its checksum, or a package with its version; and how it serves.

    ``interval`` is in seconds. ``shared`` has a series for each pod of a GPU that pods share. ``resources`` are
    further names of the kubelet's resources whose devices are GPUs.
    """

    location: str
    sha256: str
    package: str
    version: str
    address: str
    kubernetes: bool
    gpu_id_type: str
    shared: bool
    resources: t.Tuple[str, ...]
    collectors: str
    interval: int


@dataclasses.dataclass(frozen=True)
class DesiredDcgm:
    """What the user wants; without ``version`` any that is offered is good."""

    state: str
    version: str
    cuda: str
    proprietary: bool
    hold: bool
    exporter: t.Optional[Exporter] = None

    @property
    def exporters_package(self) -> t.Tuple[str, ...]:
        """Return the package of the exporter, none if it comes as a program or not at all."""
        return (self.exporter.package,) if self.exporter and self.exporter.package else ()

    def packages(self, driver: str) -> t.Tuple[str, ...]:
        """Return the packages of DCGM for a version of the driver, empty if it is not known."""
        major = {"auto": cuda(driver), "none": ""}.get(self.cuda, self.cuda)
        return dcgm(major, proprietary=self.proprietary)


def parse(params: t.Mapping[str, t.Any]) -> DesiredDcgm:
    """Return the options as values.

    Raises:
        InputError: if one is not valid; it names the option.
    """
    version = params["version"]
    if version and not VERSION.fullmatch(version):
        raise InputError.of("version", version, "a version of DCGM, such as 4.5.2")
    exporter = params["exporter"]
    return DesiredDcgm(**{**params, "exporter": None if exporter is None else _exporter(exporter)})


def _exporter(values: t.Mapping[str, t.Any]) -> Exporter:
    texts = {key: values.get(key) or "" for key in ("location", "sha256", "package", "version")}
    texts["sha256"] = texts["sha256"].lower()
    if bool(texts["location"]) == bool(texts["package"]):
        expected = "location with sha256, or package with version, and not both"
        raise InputError.of("exporter", texts["location"] or texts["package"] or None, expected)
    needs = BINARY if texts["location"] else PACKAGED
    for key, pattern, expected in needs:
        if not pattern.fullmatch(texts[key]):
            raise InputError.of(f"exporter.{key}", texts[key], expected)
    address, port = values["address"], values["address"].rpartition(":")[2]
    if not ADDRESS.fullmatch(address) or not 0 < int(port) < 65536:
        raise InputError.of("exporter.address", address, "HOST:PORT, such as 127.0.0.1:9400")
    if values["collectors"] and not PATH.fullmatch(values["collectors"]):
        raise InputError.of("exporter.collectors", values["collectors"], "a path on the node")
    if values["interval"] < 1:
        expected = "a number of seconds, 1 at least"
        raise InputError.of("exporter.interval", values["interval"], expected)
    for resource in values["resources"]:
        if not RESOURCE.fullmatch(resource):
            expected = "a resource, such as nvidia.com/gpu.shared"
            raise InputError.of("exporter.resources", resource, expected)
    return Exporter(**{**values, **texts, "resources": tuple(values["resources"])})


@dataclasses.dataclass(frozen=True)
class Record(package.Record):
    """What earlier runs added.

    ``managed`` are the services that are stopped and started around changes of the driver and of MIG layouts,
    ``enabled`` those that were not enabled before. ``exporter`` says that the exporter's files are there.
    """

    managed: t.FrozenSet[str] = frozenset()
    enabled: t.FrozenSet[str] = frozenset()
    exporter: bool = False


@dataclasses.dataclass(frozen=True)
class DcgmState(plan.SoftwareState[Record]):
    """What the node has.

    ``driver`` is the driver's version, empty without one. ``services`` have systemd's properties by unit, ``files``
    the texts of the exporter's files by path. ``digest`` is the SHA-256 of the program, empty if it is not there,
    ``running`` the settings that the exporter's process was started with.
    """

    driver: str = ""
    services: t.Mapping[str, Properties] = dataclasses.field(default_factory=dict)
    files: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    digest: str = ""
    running: str = ""

    def active(self, unit: str) -> bool:
        """Return whether a service runs."""
        return self.services.get(unit, {}).get("ActiveState") == "active"

    def enabled(self, unit: str) -> bool:
        """Return whether a service starts at boot."""
        return self.services.get(unit, {}).get("UnitFileState") == "enabled"
