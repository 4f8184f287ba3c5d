# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The NVIDIA container toolkit on a node: what it is to be, what is there, and which version to take."""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import InputError, NodeError
from ..packages import record
from ..packages.apt import upstream
from ..packages.apt_sources import Source
from ..packages.package import Package, Policy, Removal
from ..packages.repository import Known, Place, Repository
from .version import MINIMUM_TEXT, is_safe

PLACE = Place(
    "gpu-node-container-toolkit",
    "The NVIDIA container toolkit, for gpu.node",
    "gpu.node.container_toolkit",
)
BASE = "nvidia-container-toolkit-base"
# The base is enough for CDI; the legacy hook and its library come with the rest.
PARTS = {
    "base": (BASE,),
    "all": (
        BASE,
        "libnvidia-container1",
        "libnvidia-container-tools",
        "nvidia-container-toolkit",
    ),
}
ALL = PARTS["all"]
# From 1.18 on the base has a service that writes a specification of its own, which runtimes prefer to
# the one in /etc/cdi, and which does not follow changes of the MIG layout.
VENDOR_FILE = "/var/run/cdi/nvidia.yaml"
DROP_IN = "/etc/systemd/system/nvidia-cdi-refresh.service.d/gpu-node.conf"
DROP_IN_TEXT = """\
# Written by gpu.node.container_toolkit: gpu.node.cdi describes the GPUs to container runtimes.
[Unit]
ConditionPathExists=!/
"""
FAMILIES = {
    "debian": "debian",
    "ubuntu": "debian",
    "rhel": "rhel",
    "rocky": "rhel",
    "almalinux": "rhel",
    "centos": "rhel",
    "fedora": "rhel",
    "amzn": "rhel",
    "sles": "suse",
    "opensuse-leap": "suse",
}


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants; without ``version`` any safe one is good."""

    state: str
    version: str
    parts: str
    hold: bool
    vendor_refresh: bool
    repository: t.Optional[Repository] = None


@dataclasses.dataclass(frozen=True)
class Record(record.Record):
    """What earlier runs added; ``drop_in`` says that the vendor's service has one of ours."""

    drop_in: bool = False


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the node has.

    ``drop_in`` is the text of ours, ``vendor_file`` says that there is a specification of the vendor's
    service. ``users`` name what still uses the toolkit. ``refreshed`` says that this run has fetched
    the package lists, ``note`` what went wrong with it. ``removal`` is there when additions are to be
    taken back and dpkg is in order.
    """

    family: str
    packages: t.Mapping[str, Package]
    policies: t.Mapping[str, Policy]
    repository: Known
    record: Record
    sources: t.Tuple[Source, ...] = ()
    drop_in: t.Optional[str] = None
    vendor_file: bool = False
    users: t.Tuple[str, ...] = ()
    interrupted: bool = False
    refreshed: bool = False
    note: str = ""
    removal: t.Optional[Removal] = None

    def version(self, name: str) -> t.Optional[str]:
        """Return the version of a package that is installed."""
        package = self.packages.get(name)
        return package.version if package and package.installed else None

    def held(self, name: str) -> bool:
        """Tell whether a package is on hold."""
        return name in self.packages and self.packages[name].held

    @property
    def unfinished(self) -> bool:
        """Tell whether a transaction of ours was killed."""
        return self.interrupted or any(
            self.packages[name].broken for name in ALL if name in self.packages
        )


def check_version(version: str) -> None:
    """Refuse a version with known holes before anything is looked at."""
    if version and not is_safe(version):
        raise InputError.of(
            "version",
            version,
            f"{MINIMUM_TEXT} or later, as containers could break out through earlier ones",
        )


def choose(observed: Observed, desired: Desired) -> t.Optional[str]:
    """Return the one version for all packages, None where the sources offer none of them yet.

    NodeError where they offer some, but not the wanted one, or none that is safe.
    """
    names = PARTS[desired.parts]
    have = {observed.version(name) for name in names}
    offered = [
        version
        for version in observed.policies.get(BASE, Policy(None, ())).versions
        if all(version in observed.policies.get(name, Policy(None, ())).versions for name in names)
    ]
    present = next(iter(have)) if len(have) == 1 else None
    for version in [*([present] if present else []), *offered]:
        if _fits(version, desired.version):
            return version
    if not offered:
        return None
    if desired.version:
        raise NodeError(
            f"the sources do not offer the NVIDIA container toolkit {desired.version}",
            cause=f"they offer {', '.join(offered)}",
            hint="ask for one of these, or name another repository",
        )
    raise NodeError(
        "the sources offer no NVIDIA container toolkit that is safe to use",
        cause=f"they offer {', '.join(offered)}, and before {MINIMUM_TEXT} containers could break out through it",
        hint="name a repository that has a later one",
    )


def _fits(version: str, wanted: str) -> bool:
    if wanted:
        return wanted in (version, upstream(version)) and is_safe(version)
    # Without being asked for, a release candidate is not taken.
    return is_safe(version) and "rc" not in version
