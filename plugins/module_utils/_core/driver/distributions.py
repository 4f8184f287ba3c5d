# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The distributions whose packages of the driver are known."""

from __future__ import annotations

import typing as t

from .. import distributions as known
from . import debian
from .names import Names, Offer, Wanted
from .rhel import packages as rhel
from .suse import names as suse


class Distribution(t.NamedTuple):
    """A family of distributions: their IDs in os-release, and the releases by what that calls them.

    What the offer must have for ``packages`` are names with ``prefixes``, the policies of ``candidates`` for
    a running kernel, and the relations of the ``modules`` that there are among the names. ``branches`` are those of
    releases whose own archive carries one for all their time.
    """

    family: str
    title: str
    ids: t.Tuple[str, ...]
    releases: t.Mapping[str, str]
    packages: t.Callable[[Offer, Wanted], Names]
    prefixes: t.Tuple[str, ...] = ()
    candidates: t.Callable[[str], t.Tuple[str, ...]] = lambda _kernel: ()
    modules: t.Callable[[t.Iterable[str]], t.Tuple[str, ...]] = lambda _names: ()
    branches: t.Mapping[str, str] = {}


SUPPORTED = (
    Distribution(
        "debian",
        "Debian",
        known.DEBIAN,
        {"bookworm": "12", "trixie": "13"},
        debian.packages,
        modules=lambda _names: debian.MODULES,
        branches={"bookworm": "535", "trixie": "550"},
    ),
    Distribution(
        "ubuntu",
        "Ubuntu",
        known.UBUNTU,
        {"jammy": "22.04", "noble": "24.04", "resolute": "26.04"},
        debian.ubuntu_packages,
        prefixes=("nvidia-",),
        modules=debian.ubuntu_modules,
    ),
    Distribution(
        "rhel",
        "RHEL family",
        known.RHEL,
        {one: one for one in ("8", "9", "10")},
        rhel.rhel_packages,
    ),
    Distribution(
        "rhel", "Fedora", known.FEDORA, {one: one for one in ("43", "44")}, rhel.rhel_packages
    ),
    Distribution("rhel", "Amazon Linux", known.AMAZON, {"2023": "2023"}, rhel.rhel_packages),
    Distribution(
        "suse",
        "SUSE",
        known.SUSE,
        {one: one for one in ("15.6", "15.7", "16.0")},
        suse.suse_packages,
        candidates=suse.suse_candidates,
    ),
)


def release(values: t.Mapping[str, str]) -> str:
    """Return what os-release says of the release in the word that the releases know it by."""
    found = known.FAMILIES.get(values.get("ID", ""), "")
    number = values.get("VERSION_ID", "")
    words = {"rhel": number.split(".")[0], "suse": number}
    return words.get(found, values.get("VERSION_CODENAME", ""))


def supported(distribution: str, release: str) -> t.Optional[Distribution]:
    """Return the distribution with an ID, None where it or its release is not supported."""
    return next(
        (one for one in SUPPORTED if distribution in one.ids and release in one.releases), None
    )


def branch(distribution: str, release: str) -> str:
    """Return the driver's branch that a release's own archive carries, empty where that is not known."""
    found = supported(distribution, release)
    return found.branches.get(release, "") if found else ""


def in_words() -> str:
    """Return the supported releases, for a user."""
    return ", ".join(
        f"{one.title} {number}" + (f" ({codename})" if codename != number else "")
        for one in SUPPORTED
        for codename, number in one.releases.items()
    )
