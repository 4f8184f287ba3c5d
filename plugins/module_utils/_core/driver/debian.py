# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages in Debian, in Ubuntu, and in NVIDIA's repositories for the two."""

from __future__ import annotations

import re
import typing as t

from . import branches as driver_branches
from .names import NO_BRANCH, PREFERRED, Names, Offer, Wanted, fabric

DEBIAN: t.Dict[str, t.Any] = {
    "title": "Debian",
    "family": "debian",
    "persistenced": "nvidia-persistenced",
    "headers": "linux-headers-{}",
    "pattern": r"nvidia(?:-open-kernel|-kernel(?:-open)?)-dkms",
}
DISTRIBUTION: t.Dict[str, t.Any] = {
    "kernel": {"open": "nvidia-open-kernel-dkms", "proprietary": "nvidia-kernel-dkms"},
    "user_space": (
        *("libcuda1", "libnvidia-ml1", "nvidia-cuda-mps", "nvidia-persistenced", "nvidia-smi"),
    ),
    "components": ("contrib", "non-free", "non-free-firmware"),
    "companion": ("libnvidia-cfg1",),
    "firmware": "firmware-nvidia-gsp",
    "loose": frozenset({"nvidia-persistenced"}),
    "sources": {"": "nvidia-graphics-drivers", "open": "nvidia-open-gpu-kernel-modules"},
}
REPOSITORY: t.Dict[str, t.Any] = {
    "kernel": {"open": "nvidia-kernel-open-dkms", "proprietary": "nvidia-kernel-dkms"},
    "user_space": ("nvidia-driver-cuda", "nvidia-persistenced"),
    "components": ("contrib",),
    "alike": PREFERRED,
}
MODULES = ("nvidia-kernel-dkms", "nvidia-kernel-open-dkms", "nvidia-open-kernel-dkms")


def packages(offered: Offer, wanted: Wanted) -> Names:
    """Return the packages; only the fabric manager's name depends on what is offered."""
    found = REPOSITORY if wanted.repository else DISTRIBUTION
    return Names(**DEBIAN, **found, **fabric(offered, wanted))


# Server branches live longest.
SERVER = re.compile(r"nvidia-dkms-(\d+)-server(-open)?")
BRANCH = re.compile(r"nvidia-dkms-(\d+)(-open)?")
INSTALLED = re.compile(r"libnvidia-compute-(\d+)-server|nvidia-dkms-(\d+)(?:-open)?")
DESKTOP = re.compile(r"libnvidia-compute-(\d+)")
UBUNTU: t.Dict[str, t.Any] = {
    "title": "Ubuntu",
    "family": "ubuntu",
    "headers": "linux-headers-{}",
    "pattern": r"nvidia-dkms(?:-open)?|(?:nvidia-dkms|linux-modules-nvidia)-\d+.*",
}


def ubuntu_packages(offered: Offer, wanted: Wanted) -> Names:
    """Return the packages of the branch to have: asked for, else installed, else the newest that runs the GPUs."""
    return (_repository if wanted.repository else _server)(offered, wanted)


def ubuntu_modules(names: t.Iterable[str]) -> t.Tuple[str, ...]:
    """Return the packages that have the kernel modules of a branch."""
    return tuple(sorted(one for one in names if SERVER.fullmatch(one) or BRANCH.fullmatch(one)))


def branches(
    names: t.Iterable[str], module_type: str, pattern: t.Pattern[str] = SERVER
) -> t.Tuple[str, ...]:
    """Return the branches that have the kernel modules of a module type, newest first."""
    ending = "-open" if module_type == "open" else None
    matches = [match for match in map(pattern.fullmatch, names) if match and match[2] == ending]
    return tuple(sorted({match[1] for match in matches}, key=int, reverse=True))


def _is_unsupported(offered: Offer, branch: str, wanted: Wanted) -> bool:
    """Tell whether Ubuntu leaves a branch to its community, as those in multiverse."""
    kind = "-open" if wanted.module_type == "open" else ""
    name = f"nvidia-dkms-{branch}{wanted.ending}{kind}"
    return offered.components.get(name) in ("multiverse", "universe")


def _server(offered: Offer, wanted: Wanted) -> Names:
    desktop = not wanted.ending
    known = branches(offered.names, wanted.module_type, BRANCH if desktop else SERVER)
    able = driver_branches.able(known, wanted.gpus) or known
    able = sorted(able, key=lambda one: _is_unsupported(offered, one, wanted))
    matches = map((DESKTOP if desktop else INSTALLED).fullmatch, offered.installed)
    there = [match[1] for match in matches if match and match[1]]
    have = [one for one in sorted(there, key=int, reverse=True) if one in able or not able]
    found = [driver_branches.branch(wanted.version), *have, *able, NO_BRANCH]
    branch = next(filter(None, found))
    server = f"{branch}{wanted.ending}"
    endings = {"open": f"{server}-open", "proprietary": server}
    prebuilt = {
        key: f"linux-modules-nvidia-{ending}-{wanted.kernel}" for key, ending in endings.items()
    }
    user_space = ("libnvidia-compute", "nvidia-compute-utils", "nvidia-utils")
    return Names(
        **UBUNTU,
        **fabric(offered, wanted, f"nvidia-fabricmanager-{branch}", of=branch),
        kernel={key: f"nvidia-dkms-{ending}" for key, ending in endings.items()},
        prebuilt=prebuilt,
        signed=frozenset(prebuilt.values()),
        anchor=f"nvidia-kernel-common-{server}",
        user_space=tuple(f"{name}-{server}" for name in user_space),
        persistenced=f"nvidia-compute-utils-{server}",
        components=("restricted", "multiverse"),
        companion=(f"libnvidia-cfg1-{server}",),
        sources={"": f"nvidia-graphics-drivers-{server}"},
        branches=known,
        branch=branch,
    )


def _repository(offered: Offer, wanted: Wanted) -> Names:
    known = branches(offered.names, wanted.module_type, BRANCH)
    unified = (
        "nvidia-dkms-open" if wanted.module_type == "open" else "nvidia-dkms"
    ) in offered.names
    have = {match[2] for match in map(INSTALLED.fullmatch, offered.installed) if match}
    asked = driver_branches.branch(wanted.version or driver_branches.last(wanted.gpus))
    branch = asked or next((one for one in known if one in have), "")
    if branch not in known:
        branch = "" if unified or not known else branch or known[0]
    suffix = f"-{branch}" if branch else ""
    persistenced = f"nvidia-compute-utils{suffix}"
    if persistenced not in offered.names and "nvidia-persistenced" in offered.names:
        persistenced = "nvidia-persistenced"
    utilities = f"nvidia-utils{suffix}"
    others = (utilities,) if utilities in offered.names else ()
    return Names(
        **UBUNTU,
        **fabric(offered, wanted, of=branch),
        kernel={"open": f"nvidia-dkms{suffix}-open", "proprietary": f"nvidia-dkms{suffix}"},
        user_space=(f"libnvidia-compute{suffix}", persistenced, *others),
        persistenced=persistenced,
        branches=() if unified else known,
        branch=branch,
        alike=PREFERRED,
    )
