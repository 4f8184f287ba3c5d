# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Versions of the driver, and which branches run an architecture of GPUs by NVIDIA's lists of supported products."""

from __future__ import annotations

import re
import typing as t

from .._base.errors import InputError, NodeError
from .._base.packages.apt import upstream

FIRST = {"blackwell": 570}
LAST = {"kepler": 470, "maxwell": 580, "pascal": 580, "volta": 580}
PROPRIETARY_ONLY = ("kepler", "maxwell", "pascal", "volta")
ONLY = {"blackwell": "open", **dict.fromkeys(PROPRIETARY_ONLY, "proprietary")}


class NoSupport(NodeError):
    """None of the versions runs a GPU of the node."""


class UnknownVersion(InputError):
    """A version that the package lists do not have."""


class NoCommonVersion(NodeError):
    """The package lists have no version that the packages share."""


# What is refused by package lists that may be old.
BY_LISTS = (NoSupport, UnknownVersion, NoCommonVersion)


Gpus = t.Sequence[t.Tuple[str, str]]


class Version(str):
    """A version of the driver, or a branch, as its text, which is parsed where it comes in.

    ``branch`` is empty where it does not say. ``numbers`` compare; what does not begin with one is older than all.
    """

    branch: str
    numbers: t.Tuple[int, ...]

    def __new__(cls, text: str = "") -> Version:
        """Return the version of a text."""
        self = super().__new__(cls, text)
        match = re.match(r"\d+", text.split(":", 1)[-1])
        self.branch = match[0] if match else ""
        found = re.match(r"[0-9.]*", text)
        self.numbers = tuple(int(one) for one in (found[0] if found else "").split(".") if one)
        return self

    @classmethod
    def of(cls, package: t.Optional[str]) -> Version:
        """Return the driver's version in a package's, empty where there is none."""
        return cls(upstream(package or ""))

    def fits(self, wanted: str) -> bool:
        """Tell whether it is the one asked for, or of the branch; all are where nothing is asked for."""
        return not wanted or f"{self}.".startswith(f"{wanted}.")


NO_VERSION = Version()


def rule(architecture: str) -> str:
    """Return the rule in words, empty where there is none."""
    if architecture in FIRST:
        return f"{architecture} GPUs need branch {FIRST[architecture]} or later"
    if architecture in LAST:
        return f"{LAST[architecture]} is the last branch for {architecture} GPUs"
    return ""


def last(gpus: Gpus) -> Version:
    """Return the branch after which some GPU is left without a driver, empty where there is none."""
    branches = [LAST[one] for _address, one in gpus if one in LAST]
    return Version(str(min(branches))) if branches else NO_VERSION


def unsupported(version: Version, gpus: Gpus) -> t.List[t.Tuple[str, str]]:
    """Return the GPUs, given as (address, architecture), that a version or branch does not run."""
    number = int(version.branch or 0)
    return [
        (address, one)
        for address, one in gpus
        if number and not FIRST.get(one, 0) <= number <= LAST.get(one, number)
    ]


def able(versions: t.Sequence[Version], gpus: Gpus) -> t.List[Version]:
    """Return those of the versions, in their order, that run most of the GPUs; none where they run no GPU."""
    counts = {one: len(gpus) - len(unsupported(one, gpus)) for one in versions}
    most = max(counts.values(), default=0)
    return [one for one, count in counts.items() if count == most and (count or not gpus)]


def no_version(versions: t.Sequence[Version], gpus: Gpus) -> NoSupport:
    """Return the error where none of the versions runs a GPU of the node."""
    address, architecture = unsupported(versions[0], gpus)[0]
    wanted = LAST.get(architecture) or FIRST.get(architecture)
    return NoSupport(
        f"the driver {', '.join(versions)} does not run the {architecture} GPU {address}",
        cause=rule(architecture),
        hint=f"ask for such a branch, as with version {wanted}, from a source that offers it",
    )


def warnings(version: t.Optional[Version], gpus: Gpus) -> t.List[str]:
    """Return what to say of GPUs that stay without a driver beside others."""
    return [
        f"the {architecture} GPU {address} does not run with the driver {version}: {rule(architecture)}"
        for address, architecture in unsupported(version or NO_VERSION, gpus)
    ]


def module_type(wanted: str, gpus: Gpus, there: t.AbstractSet[str] = frozenset()) -> str:
    """Return open or proprietary for GPUs given as (address, architecture).

    Where they run with both, it is the type that is ``there``, if one alone is.
    """
    for address, architecture in gpus:
        only = ONLY.get(architecture)
        wanted = only if only and wanted == "auto" else wanted
        if only and wanted != only:
            raise NodeError(
                f"the {wanted} kernel modules do not run on the {architecture} GPU {address}",
                cause=f"{architecture} GPUs run with the {only} ones only",
                hint=f"set kernel_modules to {only}, or take one of the GPUs out",
            )
    installed = next(iter(there)) if len(there) == 1 else "open"
    return installed if wanted == "auto" else wanted
