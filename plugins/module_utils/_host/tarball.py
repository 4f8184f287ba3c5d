# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Collections in folders and in tarballs."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import typing as t

from .._core.bundle.collection import Collection, Member, parse
from .._core.errors import NodeError

Read = t.Callable[[str], t.Optional[Member]]


def read(path: str) -> Collection:
    """Return the collection in a folder or tarball. NodeError: there is none, or it was changed."""
    if not os.path.isfile(path):
        return parse(path, lambda name: _of_folder(path, name))
    try:
        with tarfile.open(path) as archive:
            return parse(path, lambda name: _of_archive(archive, name))
    except (tarfile.TarError, OSError, EOFError) as error:
        raise NodeError(
            f"collection: {path} can't be read",
            cause=str(error),
            hint="build it again",
            key="collection",
        ) from error


def _of_folder(folder: str, name: str) -> t.Optional[Member]:
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as stream:
            return Member(stream.read(), os.access(path, os.X_OK))
    except OSError:
        return None


def _of_archive(archive: tarfile.TarFile, name: str) -> t.Optional[Member]:
    try:
        found = archive.getmember(name)
        stream = archive.extractfile(found)
    except KeyError:
        return None
    return Member(stream.read(), bool(found.mode & 0o100)) if stream else None


def pack(found: Collection, path: str) -> None:
    """Write a tarball that ansible-galaxy installs, and that depends on names and contents alone."""
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 6, out, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in found.folders:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            for name, one in found.members.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(one.data), 0o755 if one.program else 0o644
                archive.addfile(entry, io.BytesIO(one.data))
