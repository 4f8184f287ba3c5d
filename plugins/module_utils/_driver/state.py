# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the user wants, what the node has, what was added to it, and where the driver comes from by ``source: auto``."""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from .._base import distributions
from .._base.errors import InputError
from .._base.packages import apt, repository
from .._base.packages.package import Package, Packages, Policy, Relations, Removal
from .._base.packages.repository import Known, Repository
from .._base.steps import Step
from .._base.text.masking import masked_text
from .._node.users.users import User
from . import branches
from .branches import NO_VERSION, Table, Version, module_type
from .kernel.device_nodes import NOTHING_MISSING, DeviceNodes
from .kernel.modules import Dkms, Modules, SigningKey
from .module_options import declared
from .module_options.declared import Options
from .module_options.record import Written
from .names import PLACE, Names, is_driver, order
from .persistence import NOT_ASKED, Persistence
from .releases import table

if t.TYPE_CHECKING:
    from .family import Family

VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
FLAVOUR_OF = re.compile(r"-([a-z][a-z0-9-]*)$")
SHA256 = re.compile(r"[0-9a-f]{64}")
LOCATION = re.compile(r"https?://[^\s\"'@]+|/[^\n]+")
Values = t.Optional[t.Mapping[str, t.Any]]


class Runfile(t.NamedTuple):
    """NVIDIA's installer: its path on the node or its address, and its checksum."""

    location: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants."""

    state: str
    version: Version
    kernel_modules: str
    components: t.Tuple[str, ...]
    hold: bool
    load: bool
    persistence: bool
    manage_sources: bool
    secure_boot: str
    reload: str
    module_options: Options = ()
    source: str = "distribution"
    repository: t.Optional[Repository] = None
    runfile: t.Optional[Runfile] = None
    hold_kernel: bool = False
    update: bool = False
    adopt: bool = False
    precompiled: str = "auto"
    prerequisites: str = "refuse"
    releases: t.Optional[Table] = None


def parse_desired(params: t.Mapping[str, t.Any]) -> Desired:
    """Return what the options say; InputError names the one that cannot be meant."""
    named = params["repository"], params["source"]
    parsed = {
        "version": Version(params["version"]),
        "runfile": _runfile(params),
        "components": tuple(params["components"]),
        "repository": parse_repository(*named) if params["state"] == "present" else None,
        "module_options": declared.parse(params["module_options"]),
        "releases": table.parse(params["releases"]),
    }
    return Desired(**{**params, **parsed})


def parse_repository(values: Values, source: str) -> t.Optional[Repository]:
    """Return the repository; InputError names the key that cannot be meant."""
    if values is None and source == "repository":
        expected = "its url and its key, or its preset, with source: repository"
        raise InputError.of("repository", None, expected)
    if values is not None and source != "repository":
        said = values.get("preset") or masked_text(values.get("url") or "")
        raise InputError.of("repository", said, "source to be repository with it")
    return None if values is None else repository.parse(values)


def _runfile(params: t.Mapping[str, t.Any]) -> t.Optional[Runfile]:
    values, version = params["runfile"], params["version"]
    if (values is None) != (params["source"] != "runfile"):
        wanted = "its location and sha256" if values is None else "source to be runfile with it"
        raise InputError.of("runfile", values and values.get("location"), wanted)
    if values is None:
        return None
    location, checksum = values["location"], values["sha256"].lower()
    if not LOCATION.fullmatch(location):
        expected = "a path on the node, or an http(s) address"
        raise InputError.of("runfile.location", location, expected)
    if not SHA256.fullmatch(checksum):
        raise InputError.of("runfile.sha256", values["sha256"], "64 hexadecimal digits")
    if params["state"] == "present" and not VERSION.fullmatch(version):
        expected = "the exact version that the file has, such as 580.95.05"
        raise InputError.of("version", version, expected)
    return Runfile(location, checksum)


@dataclasses.dataclass(frozen=True)
class Record(Written):
    """The additions; of the packages, ``requested`` are those that were asked for.

    ``sources``, ``service`` and ``fabric`` say that a sources file is there and services were enabled,
    ``modprobe`` that our modprobe file, or what an initramfs has of it, must go.
    ``runfile`` is what NVIDIA's installer brought, version and module type, or "?" where it was cut off.
    ``stream`` is the module stream that was enabled, ``stream_before`` the one that was enabled then.
    ``adopted`` are the driver's packages that were taken over, as "name version", ``earlier`` all that were there
    before the first transaction, at the version that they had before one changed them. ``automatic`` are those of both
    that came as dependencies, ``exchanged`` those that we have changed or removed since. ``replaced`` is the version of
    a driver from NVIDIA's installer that packages, or another version of it, have taken the place of.
    ``device_nodes`` says that a unit makes device nodes at boot, ``persistence_mode`` that our drop-in is there.
    """

    sources: bool = False
    service: bool = False
    modprobe: bool = False
    fabric: bool = False
    requested: t.FrozenSet[str] = frozenset()
    runfile: str = ""
    stream: str = ""
    stream_before: str = ""
    adopted: t.FrozenSet[str] = frozenset()
    earlier: t.FrozenSet[str] = frozenset()
    automatic: t.FrozenSet[str] = frozenset()
    exchanged: t.FrozenSet[str] = frozenset()
    replaced: str = ""
    device_nodes: bool = False
    persistence_mode: bool = False

    @property
    def before(self) -> t.Dict[str, str]:
        """Return the versions that packages had when they were taken over."""
        return versions(self.adopted)

    @property
    def others(self) -> t.Dict[str, str]:
        """Return the versions of the driver's packages of others, as ``absent`` gives them back."""
        return {**self.before, **versions(self.earlier)}


def versions(found: t.Iterable[str]) -> t.Dict[str, str]:
    """Return versions by their packages, each given as "name version"."""
    return {name: version for name, _space, version in (one.partition(" ") for one in found)}


class Installed(t.NamedTuple):
    """What NVIDIA's installer has left: a version, empty where it left nothing; what its run needs."""

    version: Version = NO_VERSION
    dkms: bool = False
    missing: t.Tuple[str, ...] = ()
    present: bool = True


class Streams(t.NamedTuple):
    """The stream of dnf's module that is enabled, empty where none is, and what each has, where one must be chosen.

    ``offered`` are (name, architecture, version) of a stream's packages.
    """

    enabled: str = ""
    offered: t.Mapping[str, t.Tuple[t.Tuple[str, str, str], ...]] = {}


@dataclasses.dataclass(frozen=True)
class Observed(Packages):
    """What the node has; ``record`` is what earlier runs wrote down of their additions.

    ``family`` is that of its distribution, with what is particular to it.
    ``refreshed`` says that this run has fetched the package lists, ``refresh_note`` what went wrong with it.
    ``removal`` is there when additions are to be removed again and dpkg is in order. ``users`` are the processes that
    have a GPU open, ``allocated`` says which pods have been given one; it is asked for where the loaded driver would
    change. ``reload_note`` is why this run could not exchange the loaded modules. ``nvswitch`` says that the GPUs are
    joined by NVSwitches, ``bridged`` that these are managed through InfiniBand, ``fabric`` what the fabric manager's
    service does; ``libraries`` are the versions of libnvidia-ml. ``signing_key`` is there if the kernel takes signed
    modules alone.
    ``runfile`` is what NVIDIA's own installer has left, ``firmware`` the versions with firmware for the GSP.
    ``surplus`` are packages of ours that only a component needs which is no longer wanted.
    ``relations`` are what prebuilt kernel modules need, ``refused`` those that the package manager cannot
    install. ``own_kernel`` says that the running kernel has its modules on the
    node, as all have but a container's. ``back`` are the packages that an adoption has exchanged and that can be put
    back, with their versions, None where they cannot. ``lacks_locking`` says that the
    package manager cannot keep packages at their version yet. ``undone`` is what this run has taken back.
    ``load`` tells one load of the driver from another, empty where none is loaded.
    ``foreign_sources`` is the path of our sources if something else has written a file there.
    """

    distribution: str
    codename: str
    title: str
    kernel: str
    headers: bool
    gpus: t.Tuple[t.Tuple[str, str], ...]
    loaded: t.Optional[t.Tuple[Version, str]]
    nouveau: bool
    own_sources: t.Optional[str]
    record: Record
    family: Family
    foreign_sources: str = ""
    packages: t.Mapping[str, Package] = dataclasses.field(default_factory=dict)
    policies: t.Mapping[str, Policy] = dataclasses.field(default_factory=dict)
    interrupted: bool = False
    service: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    sources: t.Tuple[apt.Source, ...] = ()
    nvidia_installer: bool = False
    refreshed: bool = False
    refresh_note: str = ""
    removal: t.Optional[Removal] = None
    users: t.Tuple[User, ...] = ()
    allocated: t.Tuple[str, ...] = ()
    reload_note: str = ""
    modules: Modules = dataclasses.field(default_factory=Modules)
    dkms: t.Tuple[Dkms, ...] = ()
    names: Names = dataclasses.field(default_factory=Names)
    nvswitch: bool = False
    bridged: bool = False
    fabric: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    libraries: t.Tuple[Version, ...] = ()
    repository: Known = dataclasses.field(default_factory=Known)
    signing_key: t.Optional[SigningKey] = None
    runfile: Installed = dataclasses.field(default_factory=Installed)
    firmware: t.Tuple[str, ...] = ()
    streams: Streams = dataclasses.field(default_factory=Streams)
    relations: Relations = dataclasses.field(default_factory=dict)
    refused: t.FrozenSet[str] = frozenset()
    own_kernel: bool = True
    back: t.Optional[t.Mapping[str, str]] = dataclasses.field(default_factory=dict)
    surplus: t.Tuple[str, ...] = ()
    lacks_locking: bool = False
    undone: Record = dataclasses.field(default_factory=Record)
    device_nodes: DeviceNodes = NOTHING_MISSING
    today: datetime.date = datetime.date.min
    load: str = ""
    persistence: Persistence = NOT_ASKED

    @property
    def newer(self) -> t.List[str]:
        """Return the kernels that can be booted and are newer than the running one, newest first."""
        found = [one for one in self.modules.kernels if order(one) > order(self.kernel)]
        return sorted(found, key=order, reverse=True)

    @property
    def flavours(self) -> t.List[str]:
        """Return what apt's packages of new kernels are called after linux-image-: generic, generic-hwe-24.04."""
        match = FLAVOUR_OF.search(self.kernel)
        form = f"linux-image-({re.escape(match[1])}.*)" if match else "(?!)"
        return [found[1] for found in map(re.compile(form).fullmatch, self.packages) if found]

    @property
    def others(self) -> t.Dict[str, str]:
        """Return the versions of the driver's packages that are there and that no run has added.

        None are where all of the user space is ours: what there is besides, upgrades have brought with it. Only apt's
        packages are known.
        """
        ours = self.record.packages
        there = [one for one in self.names.user_space if self.installed(one)]
        if not self.family.apt or (there and ours.issuperset(there)):
            return {}
        found = {name for name, one in self.packages.items() if is_driver(name, one)} - ours
        return self.there(name for name in self.packages if name in found)

    def taken(self, adopt: bool) -> t.FrozenSet[str]:
        """Return what was taken over, or is to be; it may give way to other packages of the driver."""
        return frozenset((*self.record.before, *(self.others if adopt else ())))

    def type_of(self, package: str) -> str:
        """Return the type of the kernel modules that a package has, empty where it has none."""
        return self.family.type_of(package)

    @property
    def types(self) -> t.FrozenSet[str]:
        """Return the types of the kernel modules that are installed."""
        return frozenset(map(self.type_of, filter(self.installed, self.packages))) - {""}

    def wanted_type(self, wanted: str) -> str:
        """Return the type of kernel modules to have, by the option kernel_modules; NodeError where no GPU runs it."""
        return module_type(wanted, self.gpus, self.types)

    def drivers(self, package: str) -> t.Tuple[Version, ...]:
        """Return the driver's versions among those that can be had."""
        return tuple(dict.fromkeys(map(Version.of, self.versions(package))))

    def driver(self, package: str) -> Version:
        """Return the driver's version in an installed package's, empty where it is not installed."""
        return Version.of(self.installed(package))


AUTO = "auto"
Nvidias = t.Callable[[], t.Optional[Repository]]


class Source(t.NamedTuple):
    """A source, the version or branch to have of it, and why; ``fresh`` says that the node has no driver yet.

    Without a ``repository`` to name, the files of the one that the node's driver is from stay as they are.
    """

    name: str
    version: Version
    repository: t.Optional[Repository] = None
    why: str = ""
    fresh: bool = False

    def told(self, steps: t.Iterable[Step]) -> t.Tuple[Step, ...]:
        """Return the steps, with why the node gets a repository that nobody has named."""
        found = [*steps]
        for at, one in enumerate(found):
            if self.fresh and one.action == "repository":
                found[at] = dataclasses.replace(one, summary=f"{one.summary}, as {self.why}")
        return tuple(found)


def named_source(values: t.Mapping[str, t.Any]) -> str:
    """Return the source that options name, with auto that of which anything is said."""
    said = [one for one in ("repository", "runfile") if values[one] is not None]
    return said[0] if values["source"] == AUTO and said else str(values["source"])


def has_run(observed: Observed) -> bool:
    """Tell whether an earlier run has begun to install the driver's packages, or has taken them over."""
    record = observed.record
    return bool(record.packages or record.holds or record.adopted or record.earlier)


def chosen(observed: Observed, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source; ``nvidias`` returns NVIDIA's repository, None where none is known for the system."""
    there = (name for name, one in observed.packages.items() if not one.gone)
    if has_run(observed) or any(map(observed.type_of, there)):
        return _kept(observed, desired, nvidias)
    if observed.nvidia_installer or (observed.loaded and observed.libraries):
        if observed.loaded and observed.libraries and not desired.adopt:
            why = f"the driver {observed.loaded[0]} is loaded, and of no package that is known"
            return Source("preinstalled", desired.version, why=why)
        return Source("distribution", desired.version, why="a driver of no package is there")
    return _fresh(observed, desired, nvidias)


def _kept(observed: Observed, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source that the driver on the node is from."""
    files = observed.repository.files
    if not (observed.record.repository or files):
        return Source("distribution", desired.version, why="the node's driver is from there")
    lists = (PLACE.sources, *PLACE.rpm_repositories.values())
    there = [files[one] for one in lists if one in files]
    repository = nvidias()
    if repository and there and not any(repository.url in text for text in there):
        repository = None
    version = desired.version
    if not version:
        # The branch of the driver on the node where that runs the GPUs, else the one that is supported longest.
        newest = max(observed.libraries, key=lambda one: one.numbers, default=NO_VERSION)
        version, table = Version(newest.branch), desired.releases
        if not version or not branches.able([version], observed.gpus):
            version = (
                branches.supported(table, observed.today, observed.gpus) if table else NO_VERSION
            )
    return Source("repository", version, repository, "the node's driver is from one")


def _fresh(observed: Observed, desired: Desired, nvidias: Nvidias) -> Source:
    """Return the source for a node without a driver."""
    version, table = desired.version, desired.releases
    carried = Version(distributions.branch(observed.distribution, observed.codename))
    found = Source("distribution", version, why="no driver is on the node", fresh=True)
    if not carried or (version and version.branch == carried):
        return found
    why = f"{observed.title} has branch {carried}"
    if not version:
        if table is None:
            return found
        stands = branches.support(carried, table, observed.today)
        if not stands["past"] and branches.able([carried], observed.gpus):
            return found
        end = stands["end_of_support"]
        past = "which NVIDIA does not support any more" + (f" since {end}" if end else "")
        why += f", {past if stands['past'] else 'which does not run the GPUs'}"
        version = branches.supported(table, observed.today, observed.gpus)
    repository = nvidias() if version else None
    return Source("repository", version, repository, why, fresh=True) if repository else found
