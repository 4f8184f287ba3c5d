# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages for the RHEL family, all of them NVIDIA's.

The components are in nvidia-driver.spec of NVIDIA's yum-packaging-nvidia-driver; NVENC and NVDEC come with cuda-libs.
"""

from __future__ import annotations

import re
import typing as t

from ...._base.errors import NodeError
from ...._base.steps import Step
from ...branches import NO_VERSION, Version
from ...family import Choice, Family, fabric
from ...kernel.modules import SigningKey
from ...names import Names, Offer, Wanted
from ...state import Desired, Observed
from . import precompiled
from .streams import MODULE, stream_step
from .streams import wanted as wanted_stream

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
    *(f"oracle-epel-release-el{one}" for one in (8, 9, 10)),
)
PARTS = {"video": ("nvidia-driver-cuda-libs",), "graphics": ("nvidia-driver-libs",)}
AMAZONS_FIRST = "6.1"  # the packages of its later kernels have their number in their names


def headers(kernel: str) -> t.Tuple[str, str]:
    """Return the package of a kernel's headers, whose variants have others, and what ties both, where DKMS needs it."""
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

    name = "rhel"
    pattern = f"{'|'.join(DKMS.values())}|{precompiled.PATTERN}"
    has_precompiled = True
    module = MODULE
    locking = LOCKING
    unhold, purge = "dnf versionlock delete", "dnf remove"

    def names(self, offered: Offer, wanted: Wanted) -> Names:
        """Return the packages; the fabric manager's name and precompiled kernel modules depend on what is offered."""
        devel, tie = headers(wanted.kernel)
        trusted = {"open": True, "proprietary": wanted.trusted}
        kinds = [
            kind for kind in DKMS if wanted.precompiled and (trusted[kind] or not wanted.signs)
        ]
        ready = {kind: precompiled.choose(offered, wanted, kind) for kind in kinds}
        kernel = {kind: (ready.get(kind) or (name,))[0] for kind, name in DKMS.items()}
        built = kernel[wanted.module_type] in DKMS.values()
        return Names(
            title="RHEL family",
            kernel=kernel,
            user_space=("nvidia-driver-cuda", "nvidia-persistenced"),
            persistenced="nvidia-persistenced",
            headers=devel if built else "",
            tie=tie if built else "",
            headers_first=built,  # rpm runs the script that builds wherever the transaction puts it
            signed=frozenset(one for kind, some in ready.items() for one in some if trusted[kind]),
            beside=tuple(ready.get(wanted.module_type, ())[1:]),
            precompiled=tuple(filter(precompiled.is_precompiled, sorted(offered.names))),
            needs=NEEDS,
            parts=PARTS,
            **fabric(offered, wanted, "nvidia-fabric-manager"),
        )

    def prefixes(self, wanted: Wanted) -> t.Tuple[str, ...]:
        """Return what precompiled kernel modules begin with, where they are wanted."""
        return (precompiled.PREFIX,) if wanted.precompiled else ()

    def wants_precompiled(
        self, asked: str, installed: t.Iterable[str], key: t.Optional[SigningKey]
    ) -> bool:
        """Tell whether precompiled kernel modules are asked for, there, or wanted for Secure Boot's sake."""
        there = [name for name in installed if self.type_of(name)]
        ready = any(map(precompiled.is_precompiled, there)) or (not there and key is not None)
        return asked == "require" or (asked != "never" and ready)

    def choose(self, observed: Observed, desired: Desired, kind: str) -> Choice:
        """Choose as elsewhere, and refuse what is not precompiled where that is required."""
        found = super().choose(observed, desired, kind)
        if desired.precompiled == "require" and found.version:
            names = observed.names.precompiled
            precompiled.check_required(observed.kernel, found.kernel, names)
        return found

    def newest(self, observed: Observed, desired: Desired, kind: str) -> Version:
        """Return the newest version of a branch, which precompiled kernel modules have in their packages' names."""
        names = observed.names
        if not precompiled.is_precompiled(names.kernel.get(kind, "")):
            return super().choose(observed, desired, kind).version or NO_VERSION
        ready = precompiled.of_kernel(names.precompiled, observed.kernel, kind)
        there = observed.drivers(names.user_space[0])
        fitting = (one for one in ready if one in there and one.fits(desired.version))
        return next(fitting, NO_VERSION)

    def streams(self, observed: Observed, desired: Desired) -> t.List[Step]:
        """Return the step that enables the module stream of the version."""
        version, of = wanted_stream(observed, desired)
        step = stream_step(observed.streams, version, of) if of else None
        return [step] if step else []

    def prerequisites(self, observed: Observed, desired: Desired, choice: Choice) -> t.List[Step]:
        """Return the step that installs EPEL, which has dkms, and dnf's plugin that locks versions."""
        epel = _epel(observed, desired) if _lacks_dkms(observed, choice) else ""
        found = [epel] if epel else []
        found += [LOCKING] if observed.lacks_locking else []
        if not found:
            return []
        # What EPEL has is not known before.
        params = {"packages": dict.fromkeys(found), "remove": (), "pins": {}, "opens": bool(epel)}
        return [Step("install", f"install {' and '.join(found)}, which the driver needs", params)]

    def refuse_others(self, installed: t.Iterable[str]) -> None:
        """Refuse where the driver of another packager is installed."""
        found = sorted(name for name in installed if name.startswith(OTHERS))
        if found:
            raise NodeError(
                f"{', '.join(found)} of another packager of the driver, such as RPM Fusion, would have to go, and this "
                "module has not added them",
                cause="NVIDIA's packages and those exclude each other",
                hint=f"keep that driver with source: preinstalled, or remove it: dnf remove {' '.join(found)}",
            )

    def refuse_unsigned(self, observed: Observed, desired: Desired, package: str) -> None:
        """Refuse kernel modules of NVIDIA's key by that, and name those that are signed already beside DKMS's."""
        if precompiled.is_precompiled(package):
            precompiled.refuse_key(package)
        try:
            super().refuse_unsigned(observed, desired, package)
        except NodeError as error:
            error.hint += precompiled.instead(observed.names, desired.precompiled)
            raise


def _lacks_dkms(observed: Observed, choice: Choice) -> bool:
    """Tell whether DKMS is to build and is neither there nor offered."""
    new = choice.version is not None and not observed.installed(choice.kernel)
    there = observed.installed("dkms") or observed.candidate("dkms")
    return new and choice.dkms and not there


def _epel(observed: Observed, desired: Desired) -> str:
    """Return the package that brings EPEL."""
    names = [one for one in observed.names.needs if "epel-release" in one]
    offered = next((one for one in names if observed.candidate(one)), "")
    there = next((one for one in names if observed.installed(one)), "")
    if offered and not there and desired.prerequisites == "install":
        return offered
    cause, hint = _words(observed, offered, there)
    raise NodeError(
        "dkms, which builds the kernel modules, is in none of the node's sources; nothing was changed",
        cause=cause,
        hint=hint,
    )


def _words(observed: Observed, offered: str, there: str) -> t.Tuple[str, str]:
    """Return why dkms is not offered, and what to do; packages that bring EPEL are offered, or there."""
    if observed.distribution in OWN:
        words = "the distribution's own repositories have it, and are off or exclude it"
        return words, "enable them, and see to excludepkgs in dnf's configuration"
    if there:
        words = f"it comes from EPEL: {there} is installed and its repository off"
        return words, "enable its repository: dnf config-manager --set-enabled epel"
    words = "it comes from EPEL, which the node does not have"
    if offered:
        advice = f"set prerequisites to install, which installs {offered} from your sources, or install it yourself"
        return words, advice
    return words, "enable EPEL, or another source that has dkms"


RHEL = Rhel()
