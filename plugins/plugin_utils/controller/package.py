# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's source tree on the controller: its files, its wheels, and the digest that names a release of it."""

from __future__ import annotations

import hashlib
import os
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._bundle.machine.tarball import write
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.wheels import (
    is_compatible,
    parse_requirements,
    refusal,
)

UNITS = tuple(f"gpu-{name}.service" for name in ("device-plugin", "node-labels", "mps", "dra"))
SKIPPED = ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "build")
DIGEST_LENGTH = 12
REFUSALS_SHOWN = 5
RUN = (".py", ".binpb")  # what Python loads, and what it reads of proto/
WHEELS = "wheels/"
Files = t.Dict[str, str]


def collect(root: str, prefix: str) -> Files:
    """Return the files below a folder by the name that they get in the archive."""
    result = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            folder
            for folder in folders
            if folder not in SKIPPED and not folder.endswith(".egg-info")
        )
        for name in sorted(names):
            path = os.path.join(folder, name)
            result[f"{prefix}/{os.path.relpath(path, root)}"] = path
    return result


def digest(path: str) -> str:
    """Return a file's SHA-256."""
    return hashlib.sha256(_content(path)).hexdigest()


def fingerprint(files: Files, release: str) -> str:
    """Return a short digest of names and contents, and of the unit's release line."""
    total = hashlib.sha256(release.encode())
    for name in sorted(files):
        total.update(name.encode() + b"\0" + bytes.fromhex(digest(files[name])))
    return total.hexdigest()[:DIGEST_LENGTH]


def pack(files: Files, path: str) -> None:
    """Write a tar archive that depends on names and contents alone; links become what they point to."""
    write(path, ((name, _content(files[name]), 0o644) for name in sorted(files)))


def _content(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def wheels_of(wheelhouse: str, requirements: str) -> Files:
    """Return the wheels of a folder, or refuse it where one of its files is not what the daemon's list has."""
    with open(requirements, encoding="utf-8") as stream:
        listed = parse_requirements(stream.read())
    files = collect(wheelhouse, "wheels")
    refusals = [refusal(listed, os.path.basename(path), digest(path)) for path in files.values()]
    refused = [refusal_text for refusal_text in refusals if refusal_text]
    wheels = {name: path for name, path in files.items() if name.endswith(".whl")}
    listing = "; ".join(refused[:REFUSALS_SHOWN])
    if len(refused) > REFUSALS_SHOWN:
        listing += f"; and {len(refused) - REFUSALS_SHOWN} more"
    listing = listing or ("" if wheels else "expected a folder with wheels")
    if listing:
        raise NodeError(
            f"wheelhouse: {wheelhouse!r} is not valid: {listing}",
            hint="recreate the folder with 'pip download --require-hashes --only-binary=:all: --no-deps"
            f" --dest {wheelhouse} --requirement {requirements}'",
            key="wheelhouse",
        )
    return wheels


class Package(t.NamedTuple):
    """What a release is made of: files by their names in the archive, units with its digest, and the digest."""

    files: Files
    units: t.Dict[str, str]
    digest: str

    def sent(self, python: str, machine: str) -> Files:
        """Return the files for a node with such a Python.

        Raises:
            NodeError: if the node would have to ask an index.
        """
        wheels = {name for name in self.files if name.startswith(WHEELS)}
        own = {name for name in wheels if is_compatible(os.path.basename(name), python, machine)}
        if wheels and not own:
            raise NodeError(
                f"wheelhouse: it has no wheel for Python {python} on {machine}, which the node has",
                hint="have gpu.node.bundle fill one, as docs/operations/air-gap.md has it (bundle_pythons,"
                " bundle_architectures)",
            )
        return {name: path for name, path in self.files.items() if name not in wheels - own}


def package(root: t.Optional[str], wheelhouse: t.Optional[str] = None) -> Package:
    """Return the release of a source tree.

    Raises:
        NodeError: if it is no source tree, or the wheels are not those listed.
    """
    needed = ("pyproject.toml", "requirements.txt")
    if not root or not all(os.path.isfile(os.path.join(root, path)) for path in needed):
        raise NodeError(f"package: {root!r} is not valid: expected the device plugin's source tree")
    members = collect(os.path.join(root, "src", "gpu_plugin"), "package/src/gpu_plugin")
    files = {name: path for name, path in members.items() if name.endswith(RUN)}
    listed = files["package/requirements.txt"] = os.path.join(root, "requirements.txt")
    units = {name: os.path.join(root, "systemd", name) for name in UNITS}
    # What is installed is pinned by the package's list of hashes, whichever way the wheels come.
    release = fingerprint({**files, **units}, "1")
    if wheelhouse:
        files.update(wheels_of(wheelhouse, listed))
    texts = {name: _content(path).decode() for name, path in units.items()}
    return Package(
        files, {name: text.replace("@RELEASE@", release) for name, text in texts.items()}, release
    )
