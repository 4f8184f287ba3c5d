# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The archives in their folder: each is whole or not there, and root's alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tarfile
import tempfile
import typing as t
import zlib

from ...._base.errors import InputError, NodeError
from ...._base.text.json_data import LONGEST
from ...._machine.host import Host
from ...._machine.writers import who_writes
from ..manifest import FILE, Json, as_files, known_gpus, parse_manifest
from ..state import RMA, Archive, Earlier, Missing, Part

MAKING = ".making-"
MOST_EARLIER, MOST_EARLIER_BYTES = 8, 512 << 20
LOCK_SECONDS = 30.0


class Archives:
    """The archives of a folder."""

    def __init__(self, host: Host, folder: str) -> None:
        self._host, self.folder = host, folder

    def check(self) -> None:
        """Refuse a folder in which somebody else than root could exchange an archive. InputError says which."""
        is_link = os.path.islink(self.folder)
        problem = f"{self.folder} is a link" if is_link else who_writes(self.folder, sticky=True)
        if problem:
            raise InputError.exposed("path", self.folder, "a folder", problem)

    def names(self) -> t.Tuple[Archive, ...]:
        """Return the archives in the order of their times."""
        archives = (Archive.from_file(name) for name in self._host.listdir(self.folder))
        return tuple(sorted(filter(None, archives), key=lambda archive: (archive.made, archive)))

    def path(self, archive: Archive) -> str:
        """Return an archive's path."""
        return f"{self.folder}/{archive.file}"

    def read(self, archive: Archive) -> Json:
        """Return what an archive says of itself.

        Raises:
            NodeError: if the archive can't be read.
        """
        path = self.path(archive)
        try:
            with tarfile.open(path, "r:gz") as tar:
                first = tar.next()
                file = tar.extractfile(first) if first is not None else None
                if file is None:
                    raise ValueError(f"it does not begin with {FILE}")
                return parse_manifest(file.read(LONGEST + 1).decode("utf-8"))
        except (OSError, EOFError, tarfile.TarError, ValueError, zlib.error) as error:
            hint = "move it away and run again"
            raise NodeError(f"{path} can't be read", cause=str(error), hint=hint) from error

    def digest(self, archive: Archive) -> t.Tuple[str, int]:
        """Return an archive's SHA-256 and its bytes."""
        digest, size = hashlib.sha256(), 0
        with open(self.path(archive), "rb") as file:
            while True:
                data = file.read(1 << 20)
                if not data:
                    return digest.hexdigest(), size
                digest.update(data)
                size += len(data)

    def earlier(self, uuid: str) -> t.Tuple[t.List[Earlier], t.List[Missing]]:
        """Return the newest archives that have a GPU, but for those that have others in them, and what is left out."""
        archives: t.List[Earlier] = []
        missing = []
        for archive in reversed(self.names()):
            if archive.stage == RMA:
                continue
            try:
                gpus = known_gpus(self.read(archive))
            except NodeError as error:
                missing.append(Missing(archive.file, str(error)))
                continue
            if uuid not in [gpu.uuid for gpu in gpus]:
                continue
            size = os.stat(self.path(archive)).st_size
            whole = sum(each.size for each in archives) + size
            if len(archives) == MOST_EARLIER or whole > MOST_EARLIER_BYTES:
                missing.append(Missing(archive.file, "newer ones are enough"))
            else:
                archives.append(Earlier(archive, size, gpus))
        return archives, missing

    @contextlib.contextmanager
    def making(self) -> t.Iterator[str]:
        """Yield an empty folder to gather in, which is removed, as are those of runs that were killed."""
        self._host.makedirs(self.folder, 0o700)
        with self._host.lock(f"{self.folder}/.lock", timeout=LOCK_SECONDS):
            for name in self._host.listdir(self.folder):
                if name.startswith(MAKING):
                    self._host.remove(f"{self.folder}/{name}")
            gathered = tempfile.mkdtemp(dir=self.folder, prefix=MAKING)
            try:
                yield gathered
            finally:
                shutil.rmtree(gathered, ignore_errors=True)

    def write(
        self,
        archive: Archive,
        gathered: str,
        manifest: Json,
        contents: t.Sequence[Part],
        earlier: t.Sequence[Earlier],
    ) -> None:
        """Write an archive in one atomic step, its manifest first.

        Raises:
            NodeError: if it can't be written.
        """
        texts = as_files(manifest)
        try:
            for name, text in texts.items():
                with open(f"{gathered}/{name}", "w", encoding="utf-8", errors="replace") as file:
                    file.write(text)
            files = {
                name: f"{gathered}/{name}"
                for name in (*texts, *(content.name for content in contents))
            }
            files.update(
                (f"earlier/{entry.archive.file}", self.path(entry.archive)) for entry in earlier
            )
            handle = os.open(f"{gathered}/.whole", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as stream:
                with tarfile.open(fileobj=stream, mode="w:gz") as tar:
                    for name, path in files.items():
                        tar.add(path, f"{archive.stem}/{name}", recursive=False, filter=_plain)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(f"{gathered}/.whole", self.path(archive))
        except OSError as error:
            raise NodeError(
                f"cannot write {self.path(archive)}",
                cause=error.strerror or str(error),
                hint="free space there, or name another folder with path, and run again",
            ) from error

    def remove(self, files: t.Iterable[str]) -> None:
        """Remove archives."""
        for file in files:
            self._host.remove(f"{self.folder}/{file}")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a file of an archive as root's alone."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o600
    return member
