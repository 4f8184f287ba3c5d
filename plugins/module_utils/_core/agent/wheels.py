# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which wheels a list of requirements allows, and what is wrong with a file that is to be one of them."""

from __future__ import annotations

import re
import typing as t

SHOWN = 12  # digits of a digest
SOURCES = re.compile(r".*\.(tar(\.(gz|bz2|xz|lz))?|tgz|tbz|txz|zip|egg)", re.IGNORECASE | re.DOTALL)


class Listed(t.NamedTuple):
    """What is listed of a package."""

    versions: t.FrozenSet[str]
    digests: t.FrozenSet[str]


def _normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def listed_wheels(text: str) -> t.Dict[str, Listed]:
    """Return what a list of requirements allows, by package."""
    found: t.Dict[str, Listed] = {}
    for line in text.replace("\\\n", " ").splitlines():
        start = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line)
        if start:
            before = found.get(_normal(start[1]), Listed(frozenset(), frozenset()))
            digests = re.findall(r"--hash=sha256:([0-9a-f]{64})(?!\S)", line)
            found[_normal(start[1])] = Listed(
                before.versions | {start[2]}, before.digests | set(digests)
            )
    return found


def refusal(listed: t.Mapping[str, Listed], file: str, sha256: str) -> str:
    """Say why a file of a wheelhouse may not be installed; nothing where it may, or where pip leaves it alone."""
    if SOURCES.fullmatch(file):
        return f"{file} is not a wheel, and nothing is built on a node"
    if not file.lower().endswith(".whl"):
        return ""
    parts = file[: -len(".whl")].split("-")
    if len(parts) == 6:
        return f"{file} has a build tag ({parts[2]}), and no wheel that is listed has one"
    if len(parts) != 5:
        return f"{file} is not the name of a wheel"
    package = listed.get(_normal(parts[0]))
    if package is None:
        return f"{file} is of a package that the daemon does not need"
    if sha256 in package.digests:
        return ""
    if parts[1] not in package.versions:
        return (
            f"{file} is not of the version that is listed, {' or '.join(sorted(package.versions))}"
        )
    return (
        f"{file} has another content (sha256 {sha256[:SHOWN]}...) than the wheels that are listed"
    )
