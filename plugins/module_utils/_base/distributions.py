# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The supported distributions, by their names in /etc/os-release."""

from __future__ import annotations

import typing as t


class Distribution(t.NamedTuple):
    """Distributions with the same kind of packages: their family, IDs in os-release, and releases by its names.

    ``branches`` are those of the driver in releases whose own archive keeps one for their lifetime. ``folder`` is the
    name, before the major version, of the folders in NVIDIA's repository that they share, empty if they have their own.
    """

    family: str
    title: str
    ids: t.Tuple[str, ...]
    releases: t.Mapping[str, str]
    branches: t.Mapping[str, str] = {}
    folder: str = ""


SUPPORTED = (
    Distribution(
        "debian",
        "Debian",
        ("debian",),
        {"bookworm": "12", "trixie": "13"},
        {"bookworm": "535", "trixie": "550"},
    ),
    Distribution(
        "ubuntu", "Ubuntu", ("ubuntu",), {"jammy": "22.04", "noble": "24.04", "resolute": "26.04"}
    ),
    Distribution(
        "rhel",
        "RHEL family",
        ("rhel", "rocky", "almalinux", "centos", "ol"),
        {release: release for release in ("8", "9", "10")},
        folder="rhel",
    ),
    Distribution("rhel", "Fedora", ("fedora",), {release: release for release in ("43", "44")}),
    Distribution("rhel", "Amazon Linux", ("amzn",), {"2023": "2023"}),
    Distribution(
        "suse",
        "SUSE",
        ("sles", "opensuse-leap"),
        {release: release for release in ("15.6", "15.7", "16.0")},
    ),
)
# The major releases whose systemd is 219: RHEL 7, those that are built from it, and Amazon Linux 2.
SYSTEMD_219: t.Mapping[str, str] = {"rhel": "7", "centos": "7", "ol": "7", "amzn": "2"}
BY_ID: t.Mapping[str, Distribution] = {
    name: distribution for distribution in SUPPORTED for name in distribution.ids
}
# All of SUSE's are like suse.
FAMILIES = {**{name: distribution.family for name, distribution in BY_ID.items()}, "suse": "suse"}


def family(values: t.Mapping[str, str]) -> str:
    """Return the family of a system by its ID, or by ID_LIKE; empty if it is not known."""
    names = [values.get("ID", ""), *values.get("ID_LIKE", "").split()]
    return next((FAMILIES[name] for name in names if name in FAMILIES), "")


def release(values: t.Mapping[str, str]) -> str:
    """Return the release by which Distribution.releases knows a system, from os-release."""
    number = values.get("VERSION_ID", "")
    numbers = {"rhel": number.split(".")[0], "suse": number}
    return numbers.get(FAMILIES.get(values.get("ID", ""), ""), values.get("VERSION_CODENAME", ""))


def too_old(values: t.Mapping[str, str]) -> str:
    """Return the title of a system whose systemd can't run the units, empty for all others."""
    name, number = values.get("ID", ""), values.get("VERSION_ID", "")
    old = name in SYSTEMD_219 and number.split(".")[0] == SYSTEMD_219[name]
    return (values.get("PRETTY_NAME") or f"{name} {number}") if old else ""


def supported(distribution: str, release: str) -> t.Optional[Distribution]:
    """Return the distribution with an ID, None if it or its release is not supported."""
    known = BY_ID.get(distribution)
    return known if known and release in known.releases else None


def branch(distribution: str, release: str) -> str:
    """Return the driver's branch in a release's own archive, empty if it is not known."""
    known = supported(distribution, release)
    return known.branches.get(release, "") if known else ""


def releases() -> t.Iterator[t.Tuple[Distribution, str, str]]:
    """Yield each supported release: its distribution, its name for files, such as debian-12, and its title."""
    for distribution in SUPPORTED:
        for codename, number in distribution.releases.items():
            suffix = f" ({codename})" if codename != number else ""
            name = f"{distribution.title.lower().replace(' ', '-')}-{number}"
            yield distribution, name, f"{distribution.title} {number}{suffix}"


def in_words() -> str:
    """Return the titles of the supported releases."""
    return ", ".join(title for _distribution, _name, title in releases())
