# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A collection as it is released: its files, which FILES.json lists by their SHA-256."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ..errors import InputError, NodeError, readable

LIST, FILES = "MANIFEST.json", "FILES.json"
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
    """Return a collection whose files are read by their names. NodeError: it is none, or was changed."""
    listed = read(LIST)
    if listed is None:
        error = InputError.of("collection", path, "an installed collection or the tarball of one")
        error.hint = BUILD
        raise error
    with readable(f"{path}/{LIST}", "install the collection again"):
        about = json.loads(listed.data)
        info, checksum = about["collection_info"], about["file_manifest_file"]["chksum_sha256"]
        name, version = f"{info['namespace']}.{info['name']}", str(info["version"])
        needs = tuple(sorted(info.get("dependencies") or {}))
    members: t.Dict[str, Member] = {LIST: listed}
    members[FILES] = _checked(path, FILES, read(FILES), checksum)
    with readable(f"{path}/{FILES}", "install the collection again"):
        entries = [dict(one) for one in json.loads(members[FILES].data)["files"]]
        folders = tuple(
            one["name"] for one in entries if one["ftype"] == "dir" and one["name"] != "."
        )
        files = {one["name"]: one["chksum_sha256"] for one in entries if one["ftype"] == "file"}
    for one, sha256 in files.items():
        members[one] = _checked(path, one, read(one), sha256)
    return Collection(name, version, folders, members, needs)


def _checked(path: str, name: str, member: t.Optional[Member], sha256: str) -> Member:
    if member is None or hashlib.sha256(member.data).hexdigest() != sha256:
        what = "is missing" if member is None else "was changed after the release"
        raise NodeError(
            f"collection: {path}: {name} {what}",
            hint="install the collection again: what goes into a bundle is what was released",
        )
    return member
