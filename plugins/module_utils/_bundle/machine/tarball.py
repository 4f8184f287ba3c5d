# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Collections in folders and in tarballs, and how these are written."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import tarfile
import typing as t

from ..._base.errors import NodeError
from ..collection import Collection, Member, parse

# A name, the bytes of a file or None for a folder, and the mode.
Entry = t.Tuple[str, t.Optional[bytes], int]


def read(path: str) -> Collection:
    """Return the collection in a folder or tarball.

    Raises:
        NodeError: if there is none, or it was changed since its release.
    """
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
        member = archive.getmember(name)
        stream = archive.extractfile(member)
    except KeyError:
        return None
    return Member(stream.read(), bool(member.mode & 0o100)) if stream else None


def pack(collection: Collection, path: str) -> None:
    """Write a tarball that ansible-galaxy installs."""
    folders = ((name, None, 0o755) for name in collection.folders)
    members = collection.members.items()
    files = ((name, member.data, 0o755 if member.program else 0o644) for name, member in members)
    write(path, itertools.chain(folders, files))


def write(path: str, entries: t.Iterable[Entry]) -> None:
    """Write a tarball that depends on names, contents and modes alone."""
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 6, out, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, data, mode in entries:
                entry = tarfile.TarInfo(name)
                entry.mode = mode
                if data is None:
                    entry.type = tarfile.DIRTYPE
                    archive.addfile(entry)
                else:
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
