# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is known of a node before its driver is planned: four values, each of which is read by a part of its own."""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from .._base.packages import apt
from .._base.packages.package import (
    EXCLUSION_HINT,
    Package,
    Packages,
    Policy,
    Relations,
    Removal,
)
from .._base.packages.repository import Known
from .._node.users.users import User
from .branches import NO_VERSION, Version, module_type
from .kernel.device_nodes import NOTHING_MISSING, DeviceNodes
from .kernel.modules import Dkms, Modules, SigningKey
from .kernel.persistence import NOT_ASKED, Persistence
from .packages.names import Names, is_driver, order
from .record import Record

OUTAGE_HINT = (
    "see that the node reaches the repository, by the address and the proxy in its file, or disable it if the driver "
    "does not come from there, then run again"
)
KERNEL_FLAVOUR = re.compile(r"-([a-z][a-z0-9-]*)$")


@dataclasses.dataclass(frozen=True)
class Traits:
    """What distinguishes a family; the defaults are those of a distribution that is not supported.

    Attributes:
        name: As gpu.node's table of distributions has it.
        apt: Whether its package manager is apt.
        pattern: Regular expression of the names of all packages that have kernel modules of the driver.
        archive: The part of the distribution's own archive that has its driver. Empty if NVIDIA's repository alone
            has it.
        has_precompiled: Whether users choose between precompiled kernel modules and those that DKMS builds.
        module: The module of dnf that has the driver in streams.
        locking: The package without which no package can be held.
        builds: Whether kernel modules are built for one kernel and may serve others.
        kernels: Regular expression of the kernels that are installed along with kernel modules.
        unhold: The command that releases a hold.
        purge: The command that removes packages.
    """

    name: str = ""
    apt: bool = False
    pattern: str = ""
    archive: str = ""
    has_precompiled: bool = False
    module: str = ""
    locking: str = ""
    builds: bool = False
    kernels: str = ""
    unhold: str = "apt-mark unhold"
    purge: str = "apt-get purge"

    def type_of(self, package: str) -> str:
        """Return the type of the kernel modules in a package, or an empty string if it has none."""
        if not re.fullmatch(self.pattern, package):
            return ""
        return "open" if "open" in package.split("-") else "proprietary"


@dataclasses.dataclass(frozen=True)
class Machine:
    """What the node is, which no step of a plan changes.

    Attributes:
        traits: What distinguishes the family of its distribution.
        distribution: ID of os-release.
        codename: Release of the distribution, as gpu.node's table of distributions names it.
        title: PRETTY_NAME of os-release.
        kernel: Release of the running kernel.
        headers: Whether the headers of the running kernel are installed.
        own_kernel: Whether the modules of the running kernel are on the node. A container has the host's kernel.
        gpus: PCI address and architecture of each GPU.
        nvswitch: Whether NVSwitches connect the GPUs.
        bridged: Whether these are managed through InfiniBand.
        signing_key: The key that DKMS signs with. None if the kernel loads unsigned modules.
        today: The day on which support ends are judged.
    """

    traits: Traits
    distribution: str
    codename: str
    title: str
    kernel: str
    headers: bool
    gpus: t.Tuple[t.Tuple[str, str], ...]
    own_kernel: bool = True
    nvswitch: bool = False
    bridged: bool = False
    signing_key: t.Optional[SigningKey] = None
    today: datetime.date = datetime.date.min


class Installed(t.NamedTuple):
    """What NVIDIA's installer has left: a version, empty if it left nothing; what its run needs."""

    version: Version = NO_VERSION
    dkms: bool = False
    missing: t.Tuple[str, ...] = ()
    present: bool = True


class Streams(t.NamedTuple):
    """The stream of dnf's module that is enabled, empty if none is, and what each has, where one must be chosen.

    ``offered`` are (name, architecture, version) of a stream's packages.
    """

    enabled: str = ""
    offered: t.Mapping[str, t.Tuple[t.Tuple[str, str, str], ...]] = {}


@dataclasses.dataclass(frozen=True)
class Software(Packages):
    """Which packages of the driver are installed, and which could be.

    Attributes:
        packages: Installed packages, and those that are kept at a version, by name.
        policies: What the package sources offer, by package name.
        interrupted: Whether a transaction was killed.
        names: The packages of the driver on this distribution.
        relations: What prebuilt kernel modules depend on.
        sources: The package sources of apt.
        own_sources: Text of the sources file that gpu.node writes. None if there is none.
        foreign_sources: Path of that file if somebody else has written it, else empty.
        repository: The files of the repository that gpu.node has made known.
        streams: The streams of dnf's module.
        surplus: Packages added for components that are no longer needed.
        removal: What removing all additions comes to. None unless it is asked for and dpkg is in order.
        back: Versions of others' packages that an adoption has exchanged. None if they can't be had any more.
        runfile: What NVIDIA's own installer has left.
        nvidia_installer: Whether its uninstaller is on the node.
    """

    packages: t.Mapping[str, Package] = dataclasses.field(default_factory=dict)
    policies: t.Mapping[str, Policy] = dataclasses.field(default_factory=dict)
    interrupted: bool = False
    names: Names = dataclasses.field(default_factory=Names)
    relations: Relations = dataclasses.field(default_factory=dict)
    sources: t.Tuple[apt.Source, ...] = ()
    own_sources: t.Optional[str] = None
    foreign_sources: str = ""
    repository: Known = dataclasses.field(default_factory=Known)
    streams: Streams = dataclasses.field(default_factory=Streams)
    surplus: t.Tuple[str, ...] = ()
    removal: t.Optional[Removal] = None
    back: t.Optional[t.Mapping[str, str]] = dataclasses.field(default_factory=dict)
    runfile: Installed = dataclasses.field(default_factory=Installed)
    nvidia_installer: bool = False

    def drivers(self, package: str) -> t.Tuple[Version, ...]:
        """Return the driver's versions among those of a package that can be had."""
        return tuple(dict.fromkeys(map(Version.of, self.versions(package))))

    def driver(self, package: str) -> Version:
        """Return the driver's version in that of an installed package, or an empty one if it is not installed."""
        return Version.of(self.installed(package))


class Driver(t.NamedTuple):
    """A driver: its version, and the type of its kernel modules, "open" or "proprietary"."""

    version: Version
    module_type: str


@dataclasses.dataclass(frozen=True)
class Loaded:
    """What the kernel has loaded of the driver, what it would load, and who uses it.

    Attributes:
        driver: The loaded driver, if any.
        load: Identifies this load of the driver, empty if none is loaded.
        nouveau: Whether nouveau is loaded.
        libraries: Versions of libnvidia-ml on the node.
        firmware: Versions of the driver that have GSP firmware on the node.
        modules: Options and files of the kernel modules.
        dkms: What DKMS has built.
        service: Unit properties of the persistence daemon.
        fabric: Unit properties of the fabric manager.
        persistence: Persistence mode of the GPUs.
        device_nodes: Device nodes that are missing or differ.
        users: Processes that have a GPU open.
        allocated: Pods that were allocated a GPU. Asked for only if the loaded driver would change.
        reload_note: Why this run could not exchange the loaded modules.
        foreign: Packages of other packagers that have kernel modules of the driver.
    """

    driver: t.Optional[Driver] = None
    load: str = ""
    nouveau: bool = False
    libraries: t.Tuple[Version, ...] = ()
    firmware: t.Tuple[str, ...] = ()
    modules: Modules = dataclasses.field(default_factory=Modules)
    dkms: t.Tuple[Dkms, ...] = ()
    service: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    fabric: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    persistence: Persistence = NOT_ASKED
    device_nodes: DeviceNodes = NOTHING_MISSING
    users: t.Tuple[User, ...] = ()
    allocated: t.Tuple[str, ...] = ()
    reload_note: str = ""
    foreign: t.FrozenSet[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class History:
    """What gpu.node has done to the node.

    Attributes:
        record: The additions of earlier runs.
        undone: The additions that this run has taken back.
        refreshed: Whether this run has fetched the package lists.
        previewed: Whether the packages are those of sources that a step would write, which check mode tries aside.
        refresh_note: What went wrong with the package lists.
        refused: Prebuilt kernel modules that the package manager has refused to install.
        lacks_locking: Whether the package manager can't hold packages yet.
        unanswered: Repositories that did not answer, each with the package manager's reason.
        excluded: Packages that the sources have and the package manager's configuration excludes.
    """

    record: Record = dataclasses.field(default_factory=Record)
    undone: Record = dataclasses.field(default_factory=Record)
    refreshed: bool = False
    previewed: bool = False
    refresh_note: str = ""
    refused: t.FrozenSet[str] = frozenset()
    lacks_locking: bool = False
    unanswered: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    excluded: t.FrozenSet[str] = frozenset()

    def explain(self, missing: t.Iterable[str]) -> t.Tuple[str, str]:
        """Return why packages are not offered, as far as it is known, and the next step."""
        excluded = sorted(self.excluded.intersection(missing))
        if excluded:
            return f"dnf's configuration excludes {', '.join(excluded)}", EXCLUSION_HINT
        outages = "; ".join(
            f"the repository {name} does not answer: {reason}"
            for name, reason in self.unanswered.items()
        )
        return (outages, OUTAGE_HINT) if outages else ("", "")


@dataclasses.dataclass(frozen=True)
class DriverState:
    """What is known of a node."""

    machine: Machine
    software: Software = dataclasses.field(default_factory=Software)
    loaded: Loaded = dataclasses.field(default_factory=Loaded)
    history: History = dataclasses.field(default_factory=History)

    def with_software(self, **changes: t.Any) -> DriverState:
        """Return the state with fields of its software changed."""
        return dataclasses.replace(self, software=dataclasses.replace(self.software, **changes))

    def with_loaded(self, **changes: t.Any) -> DriverState:
        """Return the state with fields of what is loaded changed."""
        return dataclasses.replace(self, loaded=dataclasses.replace(self.loaded, **changes))

    def with_history(self, **changes: t.Any) -> DriverState:
        """Return the state with fields of its history changed."""
        return dataclasses.replace(self, history=dataclasses.replace(self.history, **changes))

    @property
    def newer(self) -> t.List[str]:
        """The bootable kernels that are newer than the running one, newest first."""
        running = order(self.machine.kernel)
        kernels = [kernel for kernel in self.loaded.modules.kernels if order(kernel) > running]
        return sorted(kernels, key=order, reverse=True)

    @property
    def flavours(self) -> t.List[str]:
        """What apt's packages of new kernels are called after linux-image-: generic, generic-hwe-24.04."""
        match = KERNEL_FLAVOUR.search(self.machine.kernel)
        form = f"linux-image-({re.escape(match[1])}.*)" if match else "(?!)"
        matches = map(re.compile(form).fullmatch, self.software.packages)
        return [match[1] for match in matches if match]

    @property
    def foreign_packages(self) -> t.Dict[str, str]:
        """Versions of the installed packages of the driver that no run has added, by name.

        Empty if all of the user space is ours: what there is besides has come with upgrades of it. Only apt's packages
        are known.
        """
        software, ours = self.software, self.history.record.packages
        user_space = [name for name in software.names.user_space if software.installed(name)]
        if not self.machine.traits.apt or (user_space and ours.issuperset(user_space)):
            return {}
        foreign = {name for name, package in software.packages.items() if is_driver(name, package)}
        foreign -= ours
        return software.there(name for name in software.packages if name in foreign)

    def taken(self, adopt: bool) -> t.FrozenSet[str]:
        """Return the packages that were adopted, or are to be. They may give way to other packages of the driver."""
        return frozenset(
            (*self.history.record.adopted_versions, *(self.foreign_packages if adopt else ()))
        )

    def type_of(self, package: str) -> str:
        """Return the type of the kernel modules in a package, or an empty string if it has none."""
        return self.machine.traits.type_of(package)

    @property
    def types(self) -> t.FrozenSet[str]:
        """The types of the installed kernel modules."""
        installed = filter(self.software.installed, self.software.packages)
        return frozenset(map(self.type_of, installed)) - {""}

    def wanted_type(self, kernel_modules: str) -> str:
        """Return the type of kernel modules to install, by the option kernel_modules.

        Raises:
            NodeError: if a GPU does not run with it.
        """
        return module_type(kernel_modules, self.machine.gpus, self.types)
