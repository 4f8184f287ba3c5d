# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The wheels that a list of requirements pins: reading the list, and checking files of a wheelhouse against it."""

from __future__ import annotations

import re
import typing as t

DIGEST_LENGTH = 12  # digits of a SHA-256 in messages
SOURCE_ARCHIVE = re.compile(
    r".*\.(tar(\.(gz|bz2|xz|lz))?|tgz|tbz|txz|zip|egg)", re.IGNORECASE | re.DOTALL
)


class PinnedPackage(t.NamedTuple):
    """The versions of a package that requirements allow, and the SHA-256 digests of its files."""

    versions: t.FrozenSet[str] = frozenset()
    digests: t.FrozenSet[str] = frozenset()


def _normalize_name(name: str) -> str:
    """Return a package's name as indexes compare it, see PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_requirements(text: str) -> t.Dict[str, PinnedPackage]:
    """Return the pinned packages of a requirements file with hashes, by their normalized names.

    A package may be there several times, with environment markers for different Pythons.
    """
    packages: t.Dict[str, PinnedPackage] = {}
    for line in text.replace("\\\n", " ").splitlines():
        match = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line)
        if match:
            name, version = _normalize_name(match[1]), match[2]
            digests = re.findall(r"--hash=sha256:([0-9a-f]{64})(?!\S)", line)
            package = packages.get(name, PinnedPackage())
            packages[name] = PinnedPackage(
                package.versions | {version}, package.digests | set(digests)
            )
    return packages


def is_compatible(file: str, python: str, machine: str) -> bool:
    """Return whether CPython on a machine can install a wheel, by the tags in its name (PEP 425).

    Args:
        file: The name of the wheel.
        python: The version of CPython, such as 3.13.
        machine: The architecture, such as x86_64.
    """
    pythons, abis, platforms = (tag.split(".") for tag in file[: -len(".whl")].split("-")[-3:])
    minor = int(python.split(".")[1])
    usable_pythons = {"py3", f"cp3{minor}", *(f"py3{older}" for older in range(minor + 1))}
    if "abi3" in abis:  # the stable ABI: built for a version, usable by all later ones
        usable_pythons |= {f"cp3{older}" for older in range(minor)}
    has_abi = not {"none", "abi3", f"cp3{minor}"}.isdisjoint(abis)
    has_platform = "any" in platforms or any(tag.endswith(f"_{machine}") for tag in platforms)
    return has_abi and has_platform and not usable_pythons.isdisjoint(pythons)


def refusal(packages: t.Mapping[str, PinnedPackage], file: str, sha256: str) -> str:
    """Return why a file of a wheelhouse must not be installed.

    Empty if it may be, and for a file that is neither a wheel nor a source archive, which pip ignores.

    Args:
        packages: The pinned packages.
        file: The name of the file.
        sha256: Its digest in hexadecimal.
    """
    if SOURCE_ARCHIVE.fullmatch(file):
        return f"{file} is not a wheel, and nothing is built on a node"
    if not file.lower().endswith(".whl"):
        return ""
    parts = file[: -len(".whl")].split("-")
    if len(parts) == 6:
        return f"{file} has a build tag ({parts[2]}), and no wheel that is listed has one"
    if len(parts) != 5:
        return f"{file} is not the name of a wheel"
    name, version = parts[:2]
    package = packages.get(_normalize_name(name))
    if package is None:
        return f"{file} is of a package that the device plugin does not need"
    if sha256 in package.digests:
        return ""
    if version not in package.versions:
        versions = " or ".join(sorted(package.versions))
        return f"{file} is not of the version that is listed, {versions}"
    content = f"another content (sha256 {sha256[:DIGEST_LENGTH]}...)"
    return f"{file} has {content} than the wheels that are listed"
