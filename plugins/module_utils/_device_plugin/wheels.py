# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which wheels a list of requirements allows, what is wrong with a file that is to be one, and which a Python takes."""

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
    wheels: t.Dict[str, Listed] = {}
    for line in text.replace("\\\n", " ").splitlines():
        start = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line)
        if start:
            before = wheels.get(_normal(start[1]), Listed(frozenset(), frozenset()))
            digests = re.findall(r"--hash=sha256:([0-9a-f]{64})(?!\S)", line)
            versions = before.versions | {start[2]}
            wheels[_normal(start[1])] = Listed(versions, before.digests | set(digests))
    return wheels


def fits(file: str, python: str, machine: str) -> bool:
    """Return whether CPython of a version, such as 3.13, takes a wheel by its name on a machine, such as x86_64."""
    tags, interfaces, platforms = (tag.split(".") for tag in file[: -len(".whl")].split("-")[-3:])
    minor = int(python.split(".")[1])
    taken = {"py3", f"cp3{minor}", *(f"py3{older}" for older in range(minor + 1))}
    if "abi3" in interfaces:
        taken |= {f"cp3{older}" for older in range(minor)}
    known = not {"none", "abi3", f"cp3{minor}"}.isdisjoint(interfaces)
    here = any(platform == "any" or platform.endswith(f"_{machine}") for platform in platforms)
    return known and here and not taken.isdisjoint(tags)


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
        return f"{file} is of a package that the device plugin does not need"
    if sha256 in package.digests:
        return ""
    if parts[1] not in package.versions:
        versions = " or ".join(sorted(package.versions))
        return f"{file} is not of the version that is listed, {versions}"
    other = f"another content (sha256 {sha256[:SHOWN]}...)"
    return f"{file} has {other} than the wheels that are listed"
