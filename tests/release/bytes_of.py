# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The bytes of a collection's tarball that depend on nothing but its content."""

from __future__ import annotations

import copy
import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

LIST, MANIFEST = "FILES.json", "MANIFEST.json"
Members = dict[tarfile.TarInfo, bytes]


def normalised(archive: Path, when: int) -> bytes:
    """Return a tarball again, with one time, no owners and everything in the order of names.

    ansible-galaxy writes the time of the build into it, and files in the order in which their folders have them.
    """
    with tarfile.open(archive) as old:
        members = {one: read(old, one) for one in sorted(old, key=lambda one: one.name)}
    texts = in_order(members)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as new:
        for member, data in members.items():
            told = texts.get(member.name, data)
            new.addfile(anonymous(member, when, len(told)), io.BytesIO(told))
    return gzip.compress(content.getvalue(), mtime=when)


def read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return a member's content; none of a folder or a link."""
    stream = archive.extractfile(member) if member.isfile() else None
    return stream.read() if stream else b""


def in_order(members: Members) -> dict[str, bytes]:
    """Return the list of files in the order of their names, and the manifest with that list's checksum."""
    found = {one.name: json.loads(data) for one, data in members.items() if told(one.name)}
    listed = found[LIST]
    listed["files"].sort(key=lambda one: one["name"])
    text = json.dumps(listed, indent=1).encode()
    found[MANIFEST]["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(text).hexdigest()
    return {LIST: text, MANIFEST: json.dumps(found[MANIFEST], indent=1).encode()}


def told(name: str) -> bool:
    """Return whether a member tells of the others."""
    return name in (LIST, MANIFEST)


def anonymous(member: tarfile.TarInfo, when: int, size: int) -> tarfile.TarInfo:
    """Return a member without what tells of the machine that made it."""
    executable = member.isdir() or member.mode & 0o100
    mode = 0o777 if member.issym() else 0o755 if executable else 0o644
    same = copy.copy(member)
    same.mtime, same.mode, same.size = when, mode, size
    same.uid, same.gid, same.uname, same.gname = 0, 0, "", ""
    same.pax_headers = {}  # they would have the time again
    return same
