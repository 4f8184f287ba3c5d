# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What each distribution calls the parts of the driver, and where it keeps them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

NO_BRANCH = "<branch>"


@dataclasses.dataclass(frozen=True)
class Names:
    """The packages of one distribution's driver.

    ``kernel`` has the package of the kernel modules for each flavour, ``prebuilt`` one that is
    made for the running kernel only and needs no compiler. ``anchor`` has the driver's version
    where ``prebuilt`` has the kernel's. ``always`` comes along, ``companion`` with the persistence
    daemon, ``firmware`` where a GPU needs it. ``loose`` need not be of the driver's version.
    ``sources`` are the source packages that the parts come from, for each flavour's kernel modules
    and, under the empty name, for the rest. ``pattern`` finds kernel modules of any branch.
    ``fabric`` is the fabric manager, which NVSwitches need at exactly the driver's version; ``subnet``
    is what it needs where they are managed through InfiniBand, in versions of its own.
    ``ids`` are the distributions in os-release, ``signed`` the kernel modules with a known key.
    ``alike`` are the packages, as apt's patterns, that come in the driver's version in a repository
    whose source packages are not known.
    """

    family: str
    title: str
    releases: t.Mapping[str, str]
    kernel: t.Mapping[str, str]
    user_space: t.Tuple[str, ...]
    persistenced: str
    ids: t.Tuple[str, ...] = ()
    signed: t.FrozenSet[str] = frozenset()
    headers: str = ""
    components: t.Tuple[str, ...] = ()
    prebuilt: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    anchor: str = ""
    fabric: str = ""
    subnet: t.Tuple[str, ...] = ()
    always: t.Tuple[str, ...] = ()
    companion: t.Tuple[str, ...] = ()
    firmware: str = ""
    loose: t.FrozenSet[str] = frozenset()
    sources: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    pattern: str = ""
    branches: t.Tuple[str, ...] = ()
    branch: str = ""
    alike: str = ""

    @property
    def relevant(self) -> t.Tuple[str, ...]:
        """Return every package that may belong to the driver."""
        others = (*self.always, *self.companion, self.firmware, self.fabric, *self.subnet)
        names = (*self.user_space, *others, *self.kernel.values(), *self.prebuilt.values())
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def matched(self) -> t.FrozenSet[str]:
        """Return the packages that must be of the version of the kernel modules."""
        apart = {*self.loose, *self.prebuilt.values(), *self.subnet}
        return frozenset(self.relevant) - apart

    def is_kernel(self, package: str) -> bool:
        """Tell whether a package has kernel modules of the driver, of whatever branch."""
        own = {*self.kernel.values(), *self.prebuilt.values()}
        return package in own or bool(self.pattern and re.fullmatch(self.pattern, package))

    def source(self, package: str) -> str:
        """Return the source package of a part of the driver."""
        if package in (self.fabric, *self.subnet):
            return ""
        flavour = next((key for key, name in self.kernel.items() if name == package), "")
        return self.sources.get(flavour) or self.sources.get("", "")


DEBIAN = Names(
    family="debian",
    title="Debian",
    ids=("debian",),
    releases={"bookworm": "12", "trixie": "13"},
    kernel={"open": "nvidia-open-kernel-dkms", "proprietary": "nvidia-kernel-dkms"},
    user_space=(
        "libcuda1",
        "libnvidia-ml1",
        "nvidia-cuda-mps",
        "nvidia-persistenced",
        "nvidia-smi",
    ),
    persistenced="nvidia-persistenced",
    headers="linux-headers-{}",
    components=("contrib", "non-free", "non-free-firmware"),
    companion=("libnvidia-cfg1",),
    firmware="firmware-nvidia-gsp",
    loose=frozenset({"nvidia-persistenced"}),
    sources={"": "nvidia-graphics-drivers", "open": "nvidia-open-gpu-kernel-modules"},
    pattern=r"nvidia(?:-open-kernel|-kernel(?:-open)?)-dkms",
)
UBUNTU_RELEASES = {"jammy": "22.04", "noble": "24.04", "resolute": "26.04"}
UBUNTU_BRANCH = re.compile(r"nvidia-dkms-(\d+)-server(-open)?")
UBUNTU_INSTALLED = re.compile(r"libnvidia-compute-(\d+)-server")


def ubuntu_branches(names: t.Iterable[str], flavour: str) -> t.Tuple[str, ...]:
    """Return the branches that have the kernel modules of a flavour, newest first."""
    found = (UBUNTU_BRANCH.fullmatch(name) for name in names)
    wanted = "-open" if flavour == "open" else None
    branches = {int(match[1]) for match in found if match and match[2] == wanted}
    return tuple(str(one) for one in sorted(branches, reverse=True))


def ubuntu_branch(branches: t.Sequence[str], wanted: str, installed: t.Iterable[str]) -> str:
    """Return the branch to have: the one asked for, else the installed one, else the newest."""
    asked = re.match(r"\d+", wanted.split(":", 1)[-1])
    if asked:
        return asked[0]
    there = (UBUNTU_INSTALLED.fullmatch(name) for name in installed)
    have = sorted((match[1] for match in there if match), key=int, reverse=True)
    return next(
        (one for one in have if one in branches or not branches),
        branches[0] if branches else NO_BRANCH,
    )


def ubuntu(branch: str, branches: t.Sequence[str], kernel: str) -> Names:
    """Return the names in Ubuntu, where the branch is part of them; server branches live longest."""
    server = f"{branch}-server"
    endings = {"open": f"{server}-open", "proprietary": server}
    prebuilt = {key: f"linux-modules-nvidia-{ending}-{kernel}" for key, ending in endings.items()}
    user_space = ("libnvidia-compute", "nvidia-compute-utils", "nvidia-utils")
    return Names(
        family="ubuntu",
        title="Ubuntu",
        ids=("ubuntu",),
        releases=UBUNTU_RELEASES,
        kernel={key: f"nvidia-dkms-{ending}" for key, ending in endings.items()},
        prebuilt=prebuilt,
        signed=frozenset(prebuilt.values()),
        anchor=f"nvidia-kernel-common-{server}",
        fabric=f"nvidia-fabricmanager-{branch}",
        user_space=tuple(f"{name}-{server}" for name in user_space),
        persistenced=f"nvidia-compute-utils-{server}",
        headers="linux-headers-{}",
        components=("restricted", "multiverse"),
        always=(f"nvidia-kernel-common-{server}",),
        companion=(f"libnvidia-cfg1-{server}",),
        sources={"": f"nvidia-graphics-drivers-{server}"},
        pattern=r"(?:nvidia-dkms|linux-modules-nvidia)-\d+.*",
        branches=tuple(branches),
        branch=branch,
    )


RHEL = Names(
    family="rhel",
    title="RHEL family",
    releases={"8": "8", "9": "9", "10": "10"},
    ids=("rhel", "rocky", "almalinux", "centos", "ol"),
    kernel={"open": "kmod-nvidia-open-dkms", "proprietary": "kmod-nvidia-latest-dkms"},
    user_space=("nvidia-driver-cuda", "nvidia-persistenced"),
    persistenced="nvidia-persistenced",
    fabric="nvidia-fabric-manager",
    headers="kernel-devel-{}",
)
SUSE = Names(
    family="suse",
    title="SUSE",
    releases={one: one for one in ("15.6", "15.7", "16.0")},
    ids=("sles", "opensuse-leap"),
    kernel={
        "open": "nvidia-open-driver-G06-signed-kmp-default",
        "proprietary": "nvidia-driver-G06-kmp-default",
    },
    user_space=("nvidia-compute-G06", "nvidia-compute-utils-G06"),
    persistenced="nvidia-compute-utils-G06",
    signed=frozenset({"nvidia-open-driver-G06-signed-kmp-default"}),
)
SUPPORTED = (DEBIAN, ubuntu(NO_BRANCH, (), ""), RHEL, SUSE)


def known(distribution: str) -> t.Optional[Names]:
    """Return the names of a distribution, before anything else is known of the node."""
    return next((one for one in SUPPORTED if distribution in one.ids), None)


def release(values: t.Mapping[str, str]) -> str:
    """Return what os-release says of the release in the word that the names know it by."""
    found = known(values.get("ID", ""))
    if found in (RHEL, SUSE):
        number = values.get("VERSION_ID", "")
        return number.split(".")[0] if found is RHEL else number
    return values.get("VERSION_CODENAME", "")
