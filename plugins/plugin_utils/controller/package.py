# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's source tree on the controller: its files, its wheels, and the digest that names a release of it."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import tarfile
import typing as t

from ansible.errors import AnsibleActionFail

UNITS = tuple(f"gpu-{name}.service" for name in ("device-plugin", "node-labels", "mps", "dra"))
SKIPPED = ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "build")
DIGEST_LENGTH = 12
REFUSALS_SHOWN = 5
SOURCES = re.compile(r".*\.(tar(\.(gz|bz2|xz|lz))?|tgz|tbz|txz|zip|egg)", re.IGNORECASE | re.DOTALL)
Files = t.Dict[str, str]


def collect(root: str, prefix: str) -> Files:
    """Return the files below a folder by the name that they get in the archive."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            one for one in folders if one not in SKIPPED and not one.endswith(".egg-info")
        )
        for name in sorted(names):
            path = os.path.join(folder, name)
            found[f"{prefix}/{os.path.relpath(path, root)}"] = path
    return found


def digest(path: str) -> str:
    """Return a file's SHA-256."""
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def fingerprint(files: Files, release: str) -> str:
    """Return a short digest of names and contents, and of the unit's release line."""
    total = hashlib.sha256(release.encode())
    for name in sorted(files):
        total.update(name.encode() + b"\0" + bytes.fromhex(digest(files[name])))
    return total.hexdigest()[:DIGEST_LENGTH]


def pack(files: Files, path: str) -> None:
    """Write a tar archive that depends on names and contents alone; links become what they point to."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(files):
                with open(files[name], "rb") as stream:
                    data = stream.read()
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))


def wheels_of(wheelhouse: str, requirements: str) -> Files:
    """Return the wheels of a folder, or refuse it where one of its files is not what the daemon's list has."""
    with open(requirements, encoding="utf-8") as stream:
        listed = listed_wheels(stream.read())
    files = collect(wheelhouse, "wheels")
    found = [refusal(listed, os.path.basename(path), digest(path)) for path in files.values()]
    refused = [one for one in found if one]
    wheels = {name: path for name, path in files.items() if name.endswith(".whl")}
    words = "; ".join(refused[:REFUSALS_SHOWN])
    if len(refused) > REFUSALS_SHOWN:
        words += f"; and {len(refused) - REFUSALS_SHOWN} more"
    words = words or ("" if wheels else "expected a folder with wheels")
    if words:
        raise AnsibleActionFail(
            f"wheelhouse: {wheelhouse!r} is not valid: {words}. Next step: recreate the folder with 'pip download"
            f" --require-hashes --only-binary=:all: --no-deps --dest {wheelhouse} --requirement {requirements}'"
        )
    return wheels


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
    return f"{file} has another content (sha256 {sha256[:DIGEST_LENGTH]}...) than the wheels that are listed"


class Package(t.NamedTuple):
    """What a release is made of: files by their names in the archive, units with its digest, and the digest."""

    files: Files
    units: t.Dict[str, str]
    digest: str


def package(root: t.Optional[str], wheelhouse: t.Optional[str] = None) -> Package:
    """Return the release of a source tree. AnsibleActionFail: it is none, or the wheels are not those listed."""
    needed = ("pyproject.toml", "requirements.txt")
    if not root or not all(os.path.isfile(os.path.join(root, one)) for one in needed):
        raise AnsibleActionFail(
            f"package: {root!r} is not valid: expected the daemon's source tree"
        )
    files = collect(root, "package")
    # What is installed is pinned by the package's list of hashes, whichever way the wheels come.
    release = fingerprint(files, "1")
    if wheelhouse:
        files.update(wheels_of(wheelhouse, os.path.join(root, "requirements.txt")))
    units = {}
    for name in UNITS:
        with open(os.path.join(root, "systemd", name), encoding="utf-8") as stream:
            units[name] = stream.read().replace("@RELEASE@", release)
    return Package(files, units, release)
