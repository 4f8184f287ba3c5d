# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages for the RHEL family, all of them NVIDIA's, with the streams of dnf's module that has them.

Precompiled kernel modules are signed, in a package for each kernel and version, whose name has the driver's version and
the kernel, without what names the distribution. NVIDIA makes the proprietary ones, signed with a key of its own, Red
Hat the open ones, signed as its kernels are.

The components are in nvidia-driver.spec of NVIDIA's yum-packaging-nvidia-driver; NVENC and NVDEC come with cuda-libs.
"""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import NodeError
from ..._base.packages.package import Policy
from ..._base.packages.rpm import ordered
from ..._base.steps import Step
from .. import branches
from ..branches import NO_VERSION, UnknownVersion, Version
from ..desired import Desired
from ..facts import DriverState, Streams, Traits
from ..family import Family
from ..kernel.modules import SigningKey
from ..packages.names import Headers, ModulePackages, Names, Offer, Requirements, fabric
from ..packages.versions import Choice

# RPM Fusion's and ELRepo's packages of the driver, which exclude NVIDIA's.
OTHERS = ("akmod-nvidia", "xorg-x11-drv-nvidia", "nvidia-x11-drv")
DKMS = {"open": "kmod-nvidia-open-dkms", "proprietary": "kmod-nvidia-latest-dkms"}
LOCKING = "python3-dnf-plugin-versionlock"
OWN = ("fedora", "amzn")  # they have dkms themselves
# dnf's plugin, dkms and who brings it: EPEL in the repositories of the distributions, Oracle's copy of it.
NEEDS = (
    LOCKING,
    "dkms",
    "epel-release",
    *(f"oracle-epel-release-el{release}" for release in (8, 9, 10)),
)
PARTS = {"video": ("nvidia-driver-cuda-libs",), "graphics": ("nvidia-driver-libs",)}
AMAZONS_FIRST = "6.1"  # the packages of its later kernels have their number in their names
PREFIX = "kmod-*nvidia"
PATTERN = r"kmod-(?:64k-)?nvidia-(?:open-)?\d+(?:\.\d+)+-\d.*"
VERSION = re.compile(r"nvidia-(?:open-)?(\d+(?:\.\d+)+)-")
MODULE = "nvidia-driver"
MODULE_FILE = f"/etc/dnf/modules.d/{MODULE}.module"
# NVIDIA's repositories have modules for these releases: RHEL's and Amazon Linux 2023.
RELEASES = ("8", "9", "2023")
# By the type of the kernel modules; precompiled ones are proprietary there.
PRECOMPILED = "precompiled"
ENDINGS = {"open": "-open", "proprietary": "-dkms", PRECOMPILED: ""}
ROLLING = {"open": "open-dkms", "proprietary": "latest-dkms", PRECOMPILED: "latest"}


def is_precompiled(package: str) -> bool:
    """Return whether a package has precompiled kernel modules."""
    return bool(re.fullmatch(PATTERN, package))


def version_of(package: str) -> Version:
    """Return the driver's version in a package's name."""
    match = VERSION.search(package)
    return Version(match[1] if match else "")


def of_kernel(names: t.Iterable[str], kernel: str, kind: str) -> t.Dict[Version, str]:
    """Return the packages of precompiled modules for a kernel, by their version, newest first."""
    base, _plus, variant = kernel.partition("+")
    short = base.rpartition(".")[0].rpartition(".")[0]
    start = f"kmod-{variant}-nvidia-" if variant else "kmod-nvidia-"
    start += "open-" if kind == "open" else ""
    form = re.compile(rf"{re.escape(start)}(\d+(?:\.\d+)+)-{re.escape(short)}")
    packages = {Version(match[1]): match[0] for match in map(form.fullmatch, names) if match}
    order = sorted(packages, key=lambda version: version.numbers, reverse=True)
    return {version: packages[version] for version in order}


def precompiled(offered: Offer, requirements: Requirements, kind: str) -> t.Tuple[str, ...]:
    """Return the package for the running kernel, and those of its version for others that can be booted.

    Empty if none fits. What is installed stays unless the newest is desired.
    """
    names = {*offered.names, *offered.installed}
    ready = of_kernel(names, requirements.kernel, kind)
    version = requirements.version.split(":")[-1].split("-")[0]
    fitting = [driver for driver in ready if driver.fits(version)]
    able = branches.best_versions(fitting, requirements.gpus)
    there = [driver for driver in able if ready[driver] in offered.installed]
    chosen = next(iter(able if requirements.newest else (*there, *able)), NO_VERSION)
    kernels = dict.fromkeys((requirements.kernel, *requirements.kernels))
    packages = (of_kernel(names, kernel, kind).get(chosen, "") for kernel in kernels)
    return tuple(filter(None, packages))


def instead(names: Names, asked: str) -> str:
    """Return the advice to use modules that are signed already, where those of DKMS are refused."""
    if asked == "never" or not names.modules.precompiled:
        return ""
    package = next(filter(is_precompiled, names.modules.by_type.values()), "")
    if package:
        kind = "open" if "-open-" in package else "proprietary"
        return f", or set kernel_modules to {kind}, whose modules {package} are signed already"
    kernels = ", ".join(_kernels(names.modules.precompiled))
    return f", or boot a kernel that has modules which are signed already: {kernels}"


def _kernels(names: t.Iterable[str]) -> t.List[str]:
    return sorted({VERSION.split(name, maxsplit=1)[-1] for name in names})


def with_stream(
    policies: t.Mapping[str, Policy], streams: Streams, stream: str, machine: str
) -> t.Dict[str, Policy]:
    """Return the policies once a stream is enabled: packages of any stream are those of this stream only."""
    modular = {name for rows in streams.offered.values() for name, _machine, _version in rows}
    modular_versions: t.Dict[str, t.Set[str]] = {}
    for name, architecture, version in streams.offered.get(stream, ()):
        if architecture in ("noarch", machine):
            modular_versions.setdefault(name, set()).add(version)
    loose = {name: policy for name, policy in policies.items() if name not in modular}
    return {**loose, **ordered(modular_versions)}


def wanted_stream(state: DriverState, desired: Desired) -> t.Tuple[Version, str]:
    """Return the version or branch that a stream must have, empty if all will do, and the type of modules.

    The type is empty if the modules are in no stream.
    """
    kind = state.wanted_type(desired.kernel.module_type)
    package = state.software.names.modules.by_type.get(kind, "")
    version = version_of(package) or desired.version
    version = version or branches.newest_branch_for(state.machine.gpus)
    if is_precompiled(package):
        kind = PRECOMPILED if kind == "proprietary" else ""
    return version, kind


def stream_fits(stream: str, version: Version, kind: str) -> bool:
    """Return whether a stream has a version and a module type; an empty version fits every branch."""
    branch = version.branch or r"\d+"
    return stream == ROLLING[kind] or bool(re.fullmatch(f"{branch}{ENDINGS[kind]}", stream))


def _fitting(streams: Streams, version: Version, kind: str) -> t.List[str]:
    """Return the streams of a module type that have a version."""
    number = Version.of(version)
    return [
        name
        for name, rows in streams.offered.items()
        if stream_fits(name, version, kind) and any(Version.of(row[2]).fits(number) for row in rows)
    ]


def choose_stream(streams: Streams, version: Version, kind: str) -> str:
    """Return the stream to enable, empty if the one that is enabled fits or none does."""
    fitting = _fitting(streams, version, kind)
    if streams.enabled in fitting:
        return ""
    exact = f"{version.branch}{ENDINGS[kind]}"
    preferred = [name for name in (exact, ROLLING[kind]) if name in fitting]
    if preferred:
        return preferred[0]
    return max(fitting, key=lambda name: int(Version(name).branch), default="")


def stream_steps(streams: Streams, version: Version, kind: str) -> t.List[Step]:
    """Return the step that enables a stream, none if the enabled one fits or none is offered.

    Raises:
        InputError: if streams are offered and none of them fits; it names them.
    """
    stream = choose_stream(streams, version, kind)
    if stream:
        replaced = f", in place of {streams.enabled}" if streams.enabled else ""
        params = {"stream": stream, "before": streams.enabled}
        return [Step("stream", f"enable the module stream {MODULE}:{stream}{replaced}", params)]
    if streams.offered and not _fitting(streams, version, kind):
        raise UnknownVersion.of(
            "version",
            version,
            f"a branch that the module {MODULE} has a stream of with {kind} kernel modules: "
            f"{', '.join(streams.offered)}",
        )
    return []


def headers(kernel: str) -> t.Tuple[str, str]:
    """Return the package of a kernel's headers, and the one that ties them to their kernel, if there is one."""
    variant = re.search(r"\+(64k|rt)$", kernel)
    if variant:
        return f"kernel-{variant[1]}-devel-{kernel[: variant.start()]}", ""
    if re.search(r"el\d+uek\b", kernel):
        return "kernel-uek-devel-{}", ""
    amazon = re.match(r"(\d+\.\d+)\..*\.amzn2023\b", kernel)
    if amazon:
        number = "" if amazon[1] == AMAZONS_FIRST else amazon[1]
        return f"kernel{number}-devel-{{}}", ""
    return "kernel-devel-{}", "kernel-devel-matched-{}"


class Rhel(Family):
    """RHEL, its rebuilds, Fedora and Amazon Linux."""

    traits = Traits(
        name="rhel",
        pattern=f"{'|'.join(DKMS.values())}|{PATTERN}",
        has_precompiled=True,
        module=MODULE,
        locking=LOCKING,
        unhold="dnf versionlock delete",
        purge="dnf remove",
    )

    def names(self, offered: Offer, requirements: Requirements) -> Names:
        """Return the packages; the fabric manager's name and precompiled kernel modules depend on what is offered."""
        devel, tie = headers(requirements.kernel)
        trusted = {"open": True, "proprietary": requirements.trusted}
        usable = [kind for kind in DKMS if trusted[kind] or not requirements.signs]
        kinds = usable if requirements.precompiled else []
        ready = {kind: precompiled(offered, requirements, kind) for kind in kinds}
        kernel = {kind: (ready.get(kind) or (name,))[0] for kind, name in DKMS.items()}
        built = kernel[requirements.module_type] in DKMS.values()
        signed = (name for kind, names in ready.items() for name in names if trusted[kind])
        return Names(
            title="RHEL family",
            modules=ModulePackages(
                kernel,
                signed=frozenset(signed),
                beside=tuple(ready.get(requirements.module_type, ())[1:]),
                precompiled=tuple(filter(is_precompiled, sorted(offered.names))),
            ),
            # rpm runs the script that builds wherever the transaction puts it.
            headers=Headers(devel, first=True, tie=tie) if built else Headers(),
            user_space=("nvidia-driver-cuda", "nvidia-persistenced"),
            persistenced="nvidia-persistenced",
            needs=NEEDS,
            parts=PARTS,
            **fabric(offered, requirements, "nvidia-fabric-manager"),
        )

    def prefixes(self, requirements: Requirements) -> t.Tuple[str, ...]:
        return (PREFIX,) if requirements.precompiled else ()

    def wants_precompiled(
        self, asked: str, installed: t.Iterable[str], key: t.Optional[SigningKey]
    ) -> bool:
        """Return whether precompiled kernel modules are asked for, there, or wanted for Secure Boot's sake."""
        there = [name for name in installed if self.traits.type_of(name)]
        ready = any(map(is_precompiled, there)) or (not there and key is not None)
        return asked == "require" or (asked != "never" and ready)

    def choose(self, state: DriverState, desired: Desired, kind: str) -> Choice:
        """Choose as elsewhere, and refuse what is not precompiled where that is required."""
        result = super().choose(state, desired, kind)
        required = desired.kernel.precompiled == "require" and result.version
        if required and not is_precompiled(result.kernel):
            kernels = ", ".join(_kernels(state.software.names.modules.precompiled))
            raise NodeError(
                f"the sources have no precompiled kernel modules that fit the running kernel {state.machine.kernel}",
                cause=f"they have some for the kernels {kernels}"
                if kernels
                else "they have none at all",
                hint="boot such a kernel, ask for another version or kernel_modules, or set precompiled to auto, where "
                "DKMS builds them",
            )
        return result

    def newest(self, state: DriverState, desired: Desired, kind: str) -> Version:
        """Return the newest version of a branch, which precompiled kernel modules have in their packages' names."""
        names = state.software.names
        if not is_precompiled(names.modules.by_type.get(kind, "")):
            return super().choose(state, desired, kind).version or NO_VERSION
        ready = of_kernel(names.modules.precompiled, state.machine.kernel, kind)
        there = state.software.drivers(names.user_space[0])
        fitting = (driver for driver in ready if driver in there and driver.fits(desired.version))
        return next(fitting, NO_VERSION)

    def streams(self, state: DriverState, desired: Desired) -> t.List[Step]:
        version, of = wanted_stream(state, desired)
        return stream_steps(state.software.streams, version, of) if of else []

    def prerequisites(self, state: DriverState, desired: Desired, choice: Choice) -> t.List[Step]:
        """Return the step that installs EPEL, which has dkms, and dnf's plugin that locks versions."""
        software, epel = state.software, []
        new = choice.version is not None and not software.installed(choice.kernel)
        if new and choice.dkms and not (software.installed("dkms") or software.candidate("dkms")):
            names = [name for name in software.names.needs if "epel-release" in name]
            offered = next(filter(software.candidate, names), "")
            there = next(filter(software.installed, names), "")
            if not offered or there or desired.prerequisites != "install":
                cause, hint = _explain_dkms(state, offered, there)
                message = "dkms, which builds the kernel modules, is in none of the node's sources; nothing was changed"
                raise NodeError(message, cause=cause, hint=hint)
            epel = [offered]
        missing = [*epel, *([LOCKING] if state.history.lacks_locking else [])]
        if not missing:
            return []
        # What EPEL has is not known before.
        params = {"packages": dict.fromkeys(missing), "remove": (), "pins": {}, "opens": bool(epel)}
        return [Step("install", f"install {' and '.join(missing)}, which the driver needs", params)]

    def refuse_others(self, installed: t.Iterable[str]) -> None:
        foreign = [name for name in installed if name.startswith(OTHERS)]
        if foreign:
            raise _foreign_driver_error(foreign)

    def refuse_foreign(self, state: DriverState) -> None:
        """Refuse the driver of another packager before the first change, with all packages that have to go."""
        if state.loaded.foreign:
            installed = filter(state.software.installed, state.software.packages)
            known = (name for name in installed if name.startswith(OTHERS))
            raise _foreign_driver_error({*state.loaded.foreign, *known})

    def refuse_unsigned(
        self, key: SigningKey, state: DriverState, desired: Desired, package: str
    ) -> None:
        """Refuse modules that are signed with a key which is not enrolled, and name those that are signed already."""
        if is_precompiled(package):
            raise NodeError(
                key.enforcement.reason,
                cause=f"{package} is signed with NVIDIA's key, which is not enrolled, so the kernel rejects it",
                hint="get NVIDIA2019-public_key.der from the folder of NVIDIA's repository, mokutil --import it, "
                "reboot and confirm it on the console. Set secure_boot to ignore if it is enrolled under another name",
            )
        try:
            super().refuse_unsigned(key, state, desired, package)
        except NodeError as error:
            error.hint += instead(state.software.names, desired.kernel.precompiled)
            raise


def is_foreign(package: str, version: str) -> bool:
    """Return whether a package with kernel modules is of another packager than NVIDIA and Red Hat.

    akmods names packages by the kernel, where precompiled ones have the driver's version.
    """
    if is_precompiled(package):
        return not version_of(package).fits(Version.of(version))
    return package not in DKMS.values()


def _foreign_driver_error(packages: t.Iterable[str]) -> NodeError:
    """Return the error about the driver of another packager."""
    names = sorted(packages)
    return NodeError(
        f"{', '.join(names)} of another packager of the driver, such as RPM Fusion, ELRepo or AlmaLinux, would have to "
        "go, and this module has not added them",
        cause="NVIDIA's packages and those exclude each other: the kernel loads the modules of one driver",
        hint=f"keep that driver with source: preinstalled, or remove it: dnf remove {' '.join(names)}",
    )


def _explain_dkms(state: DriverState, offered: str, there: str) -> t.Tuple[str, str]:
    """Return why dkms is not offered, and what to do; packages that bring EPEL are offered, or there."""
    cause, hint = state.history.explain(["dkms"])
    if cause and ("dkms" in state.history.excluded or there or state.machine.distribution in OWN):
        return cause, hint
    if state.machine.distribution in OWN:
        reason = "the distribution's own repositories have it, and are off or exclude it"
        return reason, "enable them, and see to excludepkgs in dnf's configuration"
    if there:
        reason = f"it comes from EPEL: {there} is installed and its repository off"
        return reason, "enable its repository: dnf config-manager --set-enabled epel"
    reason = "it comes from EPEL, which the node does not have"
    if offered:
        advice = f"set prerequisites to install, which installs {offered} from your sources, or install it yourself"
        return reason, advice
    return reason, "enable EPEL, or another source that has dkms"


RHEL = Rhel()
