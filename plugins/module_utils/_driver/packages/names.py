# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names of the driver's packages, and the place of the repository that the user names."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..._base.packages.package import Package, Policy
from ..._base.packages.repository import Place
from ..branches import NO_VERSION, Version

NO_BRANCH = "<branch>"
# What SUSE's kernels end with.
FLAVOUR = re.compile(r"-(?:[a-z][a-z0-9]*|64kb)$")
SUBNET = "nvlsm"
FABRICS = ("nvidia-fabricmanager", "nvidia-fabric-manager")
FABRIC_PREFIX = "nvidia-fabric"
PREFERRED = "nvidia-* libnvidia-* libcuda* libnvcuvid* libnvoptix* libxnvctrl* firmware-nvidia-* cuda-drivers*"
PLACE = Place.of(
    "gpu-node-driver", "The NVIDIA driver, for gpu.node", "gpu.node.nvidia_driver", PREFERRED
)


class ForeignKernels(t.NamedTuple):
    """apt's packages of the kernels of another project, from a version on: the headers, and what brings new kernels.

    In both, {} is the kernel as uname tells it, and {series} its first two numbers.
    """

    ending: str
    since: t.Tuple[int, ...]
    headers: str
    bring: t.Tuple[str, ...]


# The newest first. https://pve.proxmox.com/wiki/Proxmox_VE_Kernel; pve-kernel's packages were renamed with 6.5.
FOREIGN_KERNELS = (
    ForeignKernels(
        "-pve",
        (6, 5),
        "proxmox-headers-{}",
        (
            *("proxmox-default-kernel", "proxmox-default-headers"),
            *("proxmox-kernel-{series}", "proxmox-headers-{series}"),
        ),
    ),
    ForeignKernels(
        "-pve",
        (),
        "pve-headers-{}",
        ("pve-headers", "pve-kernel-{series}", "pve-headers-{series}"),
    ),
)


def foreign(kernel: str) -> t.Optional[ForeignKernels]:
    """Return the row of the project that a kernel is from, None if it is the distribution's own."""
    for row in FOREIGN_KERNELS:
        if kernel.endswith(row.ending) and tuple(order(kernel)) >= row.since:
            return row
    return None


def kernel_packages(kernel: str) -> t.Tuple[str, ...]:
    """Return apt's packages that bring new kernels of another project, none for the distribution's own."""
    row, series = foreign(kernel), ".".join(map(str, order(kernel)[:2]))
    return tuple(name.format(kernel, series=series) for name in row.bring) if row else ()


@dataclasses.dataclass(frozen=True)
class ModulePackages:
    """The packages of the kernel modules.

    Attributes:
        by_type: The package for each type of kernel modules.
        prebuilt: One for the running kernel only, which needs no compiler, for each type.
        anchor: Comes along, and has the driver's version where the prebuilt package has the kernel's.
        signed: Those that are signed with a known key.
        beside: Those of the same version for other kernels.
        precompiled: All that are offered for one kernel and one version each.
    """

    by_type: t.Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"open": "", "proprietary": ""}
    )
    prebuilt: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    anchor: str = ""
    signed: t.FrozenSet[str] = frozenset()
    beside: t.Tuple[str, ...] = ()
    precompiled: t.Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Headers:
    """The package of a kernel's headers, which DKMS builds with.

    Attributes:
        form: Its name, with {} for the kernel, or {bare} for the kernel without its flavour. Empty if DKMS builds
            nothing.
        first: Whether it must be installed before the transaction in which DKMS builds.
        tie: A package that ties the headers to their kernel. DKMS needs one, and the newest brings a kernel.
    """

    form: str = ""
    first: bool = False
    tie: str = ""

    def package_for(self, kernel: str) -> str:
        """Return the package for a kernel. SUSE's has the kernel without its flavour as its version."""
        project = foreign(kernel)
        form = project.headers if project and self.form else self.form
        return form.format(kernel, bare=FLAVOUR.sub("", kernel))


@dataclasses.dataclass(frozen=True)
class Archive:
    """Where apt has the packages from.

    Attributes:
        components: The components of the distribution's archive that have them.
        sources: Their source packages for each type of kernel modules and, under the empty name, for the rest.
        alike: Patterns of the packages that have the driver's version, in a repository whose source packages are
            not known.
    """

    components: t.Tuple[str, ...] = ()
    sources: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    alike: str = ""


@dataclasses.dataclass(frozen=True)
class Names:
    """The packages of one distribution's driver.

    Attributes:
        title: The family of distributions, for people.
        modules: The packages of the kernel modules.
        headers: The package of the kernel's headers.
        archive: Where apt has the packages from.
        user_space: The packages of the user space.
        persistenced: The one that has the persistence daemon.
        fabric: The fabric manager, which NVSwitches need in exactly the driver's version.
        subnet: What it needs if they are managed through InfiniBand, in versions of its own.
        companion: Packages that come with the persistence daemon.
        firmware: The package that some GPUs need.
        loose: Packages that need not have the driver's version.
        parts: The packages of each component.
        branches: The branches that are offered.
        branch: The branch that the names have, empty if they have none.
        needs: Packages that the driver may depend on, and those that bring them.
    """

    title: str = ""
    modules: ModulePackages = ModulePackages()
    headers: Headers = Headers()
    archive: Archive = Archive()
    user_space: t.Tuple[str, ...] = ()
    persistenced: str = ""
    fabric: str = ""
    subnet: t.Tuple[str, ...] = ()
    companion: t.Tuple[str, ...] = ()
    firmware: str = ""
    loose: t.FrozenSet[str] = frozenset()
    parts: t.Mapping[str, t.Tuple[str, ...]] = dataclasses.field(default_factory=dict)
    branches: t.Tuple[str, ...] = ()
    branch: str = ""
    needs: t.Tuple[str, ...] = ()

    @property
    def relevant(self) -> t.Tuple[str, ...]:
        """Every package that may belong to the driver."""
        modules = self.modules
        packages = (
            *self.user_space,
            *(modules.anchor, *self.companion, self.firmware, self.fabric, *self.subnet),
            *(*modules.by_type.values(), *modules.prebuilt.values(), *modules.beside),
        )
        return tuple(dict.fromkeys(filter(None, packages)))

    @property
    def matched(self) -> t.FrozenSet[str]:
        """The packages that must have the version of the kernel modules."""
        apart = {*self.loose, *self.modules.prebuilt.values(), *self.subnet}
        return frozenset(self.relevant) - apart

    def source(self, package: str) -> str:
        """Return the source package of a package of the driver."""
        if package in (self.fabric, *self.subnet):
            return ""
        types = self.modules.by_type.items()
        module_type = next((kind for kind, name in types if name == package), "")
        return self.archive.sources.get(module_type) or self.archive.sources.get("", "")


MARK = re.compile(r"-(\d+(?:-server)?)(?:-open)?$")
# By apt's source packages and names.
SOURCES = re.compile(
    r"nvidia-graphics-drivers.*|nvidia-open-gpu-kernel-modules|linux-restricted-.*"
)
NAMES = re.compile(r"linux-(?:modules|objects|signatures)-nvidia-.*|cuda-drivers(?:-\d+)?")


def is_driver(name: str, package: Package) -> bool:
    """Return whether an installed package is a part of the driver."""
    return bool(SOURCES.fullmatch(package.source) or NAMES.fullmatch(name))


def part(package: str) -> str:
    """Return a package's name without its branch: nvidia-utils of nvidia-utils-580-server."""
    return MARK.sub("", package)


def mark(package: str) -> str:
    """Return the branch in a package's name, as 580-server, empty if there is none."""
    match = MARK.search(package)
    return match[1] if match else ""


def order(kernel: str) -> t.List[int]:
    """Return the sort key of a kernel release; its flavour does not count."""
    return [int(match) for match in re.findall(r"\d+", FLAVOUR.sub("", kernel))]


class Offer(t.NamedTuple):
    """What a node's sources offer of the driver, and what is there.

    Attributes:
        names: The packages that begin with one of the family's prefixes.
        policies: The policies of its candidates.
        installed: The installed versions by package.
    """

    names: t.FrozenSet[str] = frozenset()
    policies: t.Mapping[str, Policy] = {}
    installed: t.Mapping[str, str] = {}


class Requirements(t.NamedTuple):
    """What the packages must fit.

    Attributes:
        version: The desired version or branch, or empty.
        module_type: The type of the kernel modules.
        kernel: The running kernel.
        repository: Whether the sources are NVIDIA's own.
        gpus: PCI address and architecture of each GPU.
        nvswitch: Whether NVSwitches connect the GPUs.
        bridged: Whether these are managed through InfiniBand.
        ending: How the names of Ubuntu's branches end, empty for those of desktops.
        precompiled: Whether precompiled kernel modules are preferred to those that DKMS builds.
        newest: Whether installed packages need not stay.
        trusted: Whether the firmware knows NVIDIA's key.
        signs: Whether the firmware knows DKMS's key, and modules of DKMS will do.
        kernels: The kernels that can be booted.
    """

    version: Version = NO_VERSION
    module_type: str = "open"
    kernel: str = ""
    repository: bool = False
    gpus: t.Tuple[t.Tuple[str, str], ...] = ()
    nvswitch: bool = False
    bridged: bool = False
    ending: str = "-server"
    precompiled: bool = False
    newest: bool = False
    trusted: bool = False
    signs: bool = False
    kernels: t.Tuple[str, ...] = ()


def fabric(
    offered: Offer, requirements: Requirements, default: str = "", branch: str = ""
) -> t.Dict[str, t.Any]:
    """Return the fabric manager that is offered, and its subnet manager, as fields of Names.

    Its name has changed over the years. ``branch`` counts if no version is asked for.
    """
    branch = requirements.version.branch or branch
    names = (*(f"{name}-{branch}" for name in FABRICS if branch), *FABRICS)
    offered_names = (name for name in names if requirements.nvswitch and name in offered.names)
    subnet = (SUBNET,) if requirements.bridged and SUBNET in offered.names else ()
    return {"fabric": next(offered_names, default), "subnet": subnet}
