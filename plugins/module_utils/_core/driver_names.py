# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What each distribution calls the parts of the driver, and where it keeps them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

NO_BRANCH = "<branch>"
RPM_FAMILY = ("rhel", "suse")


@dataclasses.dataclass(frozen=True)
class Names:
    """The packages of one distribution's driver.

    ``kernel`` has the package of the kernel modules for each flavour, ``prebuilt`` one that is
    made for the running kernel only and needs no compiler. ``anchor`` has the driver's version
    where ``prebuilt`` has the kernel's. ``always`` comes along, ``companion`` with the persistence
    daemon, ``firmware`` where a GPU needs it. ``loose`` need not be of the driver's version.
    ``sources`` are the source packages that the parts come from, for each flavour's kernel modules
    and, under the empty name, for the rest. ``pattern`` finds kernel modules of any branch.
    """

    family: str
    title: str
    releases: t.Mapping[str, str]
    kernel: t.Mapping[str, str]
    user_space: t.Tuple[str, ...]
    persistenced: str
    headers: str = ""
    components: t.Tuple[str, ...] = ()
    prebuilt: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    anchor: str = ""
    always: t.Tuple[str, ...] = ()
    companion: t.Tuple[str, ...] = ()
    firmware: str = ""
    loose: t.FrozenSet[str] = frozenset()
    sources: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    pattern: str = ""
    branches: t.Tuple[str, ...] = ()
    branch: str = ""

    @property
    def relevant(self) -> t.Tuple[str, ...]:
        """Return every package that may belong to the driver."""
        others = (*self.always, *self.companion, self.firmware)
        names = (*self.user_space, *others, *self.kernel.values(), *self.prebuilt.values())
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def matched(self) -> t.FrozenSet[str]:
        """Return the packages that must be of the version of the kernel modules."""
        return frozenset(self.relevant) - self.loose - frozenset(self.prebuilt.values())

    def is_kernel(self, package: str) -> bool:
        """Tell whether a package has kernel modules of the driver, of whatever branch."""
        own = {*self.kernel.values(), *self.prebuilt.values()}
        return package in own or bool(self.pattern and re.fullmatch(self.pattern, package))

    def source(self, package: str) -> str:
        """Return the source package of a part of the driver."""
        flavour = next((key for key, name in self.kernel.items() if name == package), "")
        return self.sources.get(flavour) or self.sources.get("", "")


DEBIAN = Names(
    family="debian",
    title="Debian",
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
)
UBUNTU_RELEASES = {"jammy": "22.04", "noble": "24.04"}
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
    user_space = ("libnvidia-compute", "nvidia-compute-utils", "nvidia-utils")
    return Names(
        family="ubuntu",
        title="Ubuntu",
        releases=UBUNTU_RELEASES,
        kernel={key: f"nvidia-dkms-{ending}" for key, ending in endings.items()},
        prebuilt={
            key: f"linux-modules-nvidia-{ending}-{kernel}" for key, ending in endings.items()
        },
        anchor=f"nvidia-kernel-common-{server}",
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


def known(distribution: str) -> t.Optional[Names]:
    """Return the names of a distribution, before anything else is known of the node."""
    return {"debian": DEBIAN, "ubuntu": ubuntu(NO_BRANCH, (), "")}.get(distribution)


SUPPORTED = (DEBIAN, ubuntu(NO_BRANCH, (), ""))
