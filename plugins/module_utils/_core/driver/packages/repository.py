# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What NVIDIA's own repositories call the parts of the driver, as far as they are offered."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..repository import PREFERRED
from .names import Names

PREFIXES = ("nvidia-", "libnvidia-compute")
UBUNTU = re.compile(r"nvidia-dkms-(\d+)(-open)?")
SUBNET = "nvlsm"
FABRICS = ("nvidia-fabricmanager", "nvidia-fabric-manager")


def named(
    known: Names, offered: t.Collection[str], wanted: str, installed: t.Collection[str], kind: str
) -> Names:
    """Return the names in a repository of NVIDIA's for a distribution."""
    makers = {"debian": _debian, "ubuntu": _ubuntu}
    make = makers.get(known.family)
    return make(known, offered, wanted, installed, kind) if make else known


def with_fabric(
    known: Names, offered: t.Collection[str], wanted: str, *, bridged: bool = False
) -> Names:
    """Return the names with the fabric manager that is offered: its name has changed over the years.

    ``bridged`` NVSwitches take a subnet manager besides.
    """
    branch = _branch(wanted) or known.branch
    names = [f"{name}-{branch}" for name in FABRICS if branch] + list(FABRICS)
    found = [name for name in names if name in offered]
    subnet = (SUBNET,) if bridged and SUBNET in offered else ()
    return dataclasses.replace(known, fabric=found[0] if found else known.fabric, subnet=subnet)


def _branch(wanted: str) -> str:
    match = re.match(r"\d+", wanted.split(":", 1)[-1])
    return match[0] if match else ""


def _debian(known: Names, *_others: t.Any) -> Names:
    return dataclasses.replace(
        known,
        kernel={"open": "nvidia-kernel-open-dkms", "proprietary": "nvidia-kernel-dkms"},
        user_space=("nvidia-driver-cuda", "nvidia-persistenced"),
        components=("contrib",),
        companion=(),
        firmware="",
        loose=frozenset(),
        sources={},
        alike=PREFERRED,
    )


def _ubuntu(
    known: Names, offered: t.Collection[str], wanted: str, installed: t.Collection[str], kind: str
) -> Names:
    ending = "-open" if kind == "open" else None
    matches = [match for match in map(UBUNTU.fullmatch, offered) if match and match[2] == ending]
    branches = sorted({match[1] for match in matches}, key=int, reverse=True)
    unified = f"nvidia-dkms{ending or ''}" in offered
    have = {match[1] for match in map(UBUNTU.fullmatch, installed) if match}
    branch = _branch(wanted) or next((one for one in branches if one in have), "")
    if branch not in branches:
        branch = "" if unified or not branches else branch or branches[0]
    suffix = f"-{branch}" if branch else ""
    persistenced = f"nvidia-compute-utils{suffix}"
    if persistenced not in offered and "nvidia-persistenced" in offered:
        persistenced = "nvidia-persistenced"
    utilities = f"nvidia-utils{suffix}"
    user = (
        f"libnvidia-compute{suffix}",
        persistenced,
        *([utilities] if utilities in offered else []),
    )
    return dataclasses.replace(
        known,
        kernel={"open": f"nvidia-dkms{suffix}-open", "proprietary": f"nvidia-dkms{suffix}"},
        user_space=user,
        persistenced=persistenced,
        prebuilt={},
        signed=frozenset(),
        anchor="",
        fabric="",
        components=(),
        always=(),
        companion=(),
        sources={},
        branches=() if unified else tuple(branches),
        branch=branch,
        alike=PREFERRED,
    )
