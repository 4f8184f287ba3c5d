# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The distributions whose packages of the driver are known."""

from __future__ import annotations

import typing as t

from .._base import distributions as known
from .families.debian import DEBIAN
from .families.rhel.family import RHEL
from .families.suse import SUSE
from .families.ubuntu import UBUNTU
from .family import Family


class Distribution(t.NamedTuple):
    """Distributions of a family: their IDs in os-release, and the releases by what that calls them.

    ``branches`` are those of releases whose own archive carries one for all their time.
    """

    driver: Family
    title: str
    ids: t.Tuple[str, ...]
    releases: t.Mapping[str, str]
    branches: t.Mapping[str, str] = {}

    @property
    def family(self) -> str:
        """Return the name of the family, by which package managers are known."""
        return self.driver.name


SUPPORTED = (
    Distribution(
        DEBIAN,
        "Debian",
        known.DEBIAN,
        {"bookworm": "12", "trixie": "13"},
        {"bookworm": "535", "trixie": "550"},
    ),
    Distribution(
        UBUNTU,
        "Ubuntu",
        known.UBUNTU,
        {"jammy": "22.04", "noble": "24.04", "resolute": "26.04"},
    ),
    Distribution(
        RHEL,
        "RHEL family",
        known.RHEL,
        {one: one for one in ("8", "9", "10")},
    ),
    Distribution(RHEL, "Fedora", known.FEDORA, {one: one for one in ("43", "44")}),
    Distribution(RHEL, "Amazon Linux", known.AMAZON, {"2023": "2023"}),
    Distribution(SUSE, "SUSE", known.SUSE, {one: one for one in ("15.6", "15.7", "16.0")}),
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
