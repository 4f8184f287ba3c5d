# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A collection as it is released: its files, which FILES.json lists by their SHA-256."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from .._base.errors import InputError, NodeError, readable

LIST, FILES = "MANIFEST.json", "FILES.json"
# What becomes names of files, here and in its tarball.
PART = r"(?!\.\.?(?:/|$))[^/\n]+"
PLAIN: t.Mapping[str, t.Tuple[t.Pattern[str], str]] = {
    "name": (re.compile(r"\w+\.\w+", re.A), "a namespace and a name, such as gpu.node"),
    "version": (re.compile(r"\d+\.\d+\.\d+[0-9A-Za-z.+-]*", re.A), "a version such as 1.0.0"),
    "file": (re.compile(rf"{PART}(?:/{PART})*"), "a file within the collection"),
}
AGAIN = "install the collection again"
BUILD = "build its tarball with 'ansible-galaxy collection build', and name that"


class Member(t.NamedTuple):
    """A file: its bytes, and whether it is a program."""

    data: bytes
    program: bool = False


Members = t.Mapping[str, Member]


class Collection(t.NamedTuple):
    """A collection's name, as namespace.name, its version, the folders and files in it, and what it needs."""

    name: str
    version: str
    folders: t.Tuple[str, ...]
    members: Members
    needs: t.Tuple[str, ...]

    @property
    def sha256(self) -> str:
        """The SHA-256 of its manifest, which has those of all other files."""
        return hashlib.sha256(self.members[LIST].data).hexdigest()

    @property
    def file(self) -> str:
        """The name of its tarball."""
        return f"{self.name.replace('.', '-')}-{self.version}.tar.gz"


def parse(path: str, read: t.Callable[[str], t.Optional[Member]]) -> Collection:
    """Return a collection whose files are read by their names.

    Raises:
        InputError: if it is no collection.
        NodeError: if its files have changed since the release.
    """
    listed = read(LIST)
    if listed is None:
        error = InputError.of("collection", path, "an installed collection or the tarball of one")
        error.hint = BUILD
        raise error
    with readable(f"{path}/{LIST}", AGAIN):
        about = json.loads(listed.data)
        info, checksum = about["collection_info"], about["file_manifest_file"]["chksum_sha256"]
        name, version = f"{info['namespace']}.{info['name']}", str(info["version"])
        needs = tuple(sorted(info.get("dependencies") or {}))
    members: t.Dict[str, Member] = {LIST: listed}
    members[FILES] = _checked(path, FILES, read(FILES), checksum)
    _check(path, "name", name, *needs)
    _check(path, "version", version)
    with readable(f"{path}/{FILES}", AGAIN):
        entries = [dict(file) for file in json.loads(members[FILES].data)["files"]]
        names = (entry["name"] for entry in entries if entry["ftype"] == "dir")
        folders = tuple(name for name in names if name != ".")
        listed_files = [entry for entry in entries if entry["ftype"] == "file"]
        files = {entry["name"]: entry["chksum_sha256"] for entry in listed_files}
    _check(path, "file", *folders, *files)
    for member, sha256 in files.items():
        members[member] = _checked(path, member, read(member), sha256)
    return Collection(name, version, folders, members, needs)


def _check(path: str, key: str, *values: str) -> None:
    """Refuse names that would lead out of the folders that they are written to."""
    pattern, expected = PLAIN[key]
    for value in values:
        if not pattern.fullmatch(value):
            error = InputError.of(f"collection: {path}: {key}", value, expected)
            error.hint = AGAIN
            raise error


def _checked(path: str, name: str, member: t.Optional[Member], sha256: str) -> Member:
    if member is None or hashlib.sha256(member.data).hexdigest() != sha256:
        problem = "is missing" if member is None else "was changed after the release"
        raise NodeError(
            f"collection: {path}: {name} {problem}",
            hint=f"{AGAIN}: what goes into a bundle is what was released",
        )
    return member
