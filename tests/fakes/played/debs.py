# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Small Debian packages with genuine names, versions and relations, and a mirror that has them."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

RELEASE = """\
Origin: {origin}
Label: {origin}
Suite: {suite}
Codename: {codename}
Architectures: amd64
Components: {parts}
Date: Sat, 01 Aug 2026 00:00:00 UTC
SHA256:
{sums}"""
COMPONENTS = ("main", "restricted", "multiverse")


@dataclasses.dataclass(frozen=True)
class Deb:
    """A package; ``fields`` are lines of its control file, ``files`` texts by path, or links to ->TARGET.

    ``scripts`` are maintainer scripts by name. They run outside of the node's folder, which is $DPKG_ROOT.
    """

    name: str
    version: str
    fields: tuple[tuple[str, str], ...] = ()
    source: str = ""
    files: tuple[tuple[str, str], ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()
    component: str = "restricted"
    suite: str = "noble-updates"
    phased: int | None = None

    def control(self) -> str:
        lines = [f"Package: {self.name}", f"Version: {self.version}", "Architecture: amd64"]
        lines += [f"Source: {self.source}"] if self.source else []
        lines += ["Maintainer: nobody <nobody@localhost>"]
        lines += [f"{key}: {value}" for key, value in self.fields if value]
        return "\n".join([*lines, "Description: played"]) + "\n"

    def write(self, pool: Path) -> str:
        """Write the package where it is not there yet, and return its entry of an index."""
        data = b"!<arch>\n" + _member("debian-binary", b"2.0\n")
        scripts = [(name, f"#!/bin/sh\nset -e\n{text}", 0o755) for name, text in self.scripts]
        data += _member("control.tar", _tar([("control", self.control(), 0o644), *scripts]))
        data += _member("data.tar", _tar([(path, text, 0o644) for path, text in self.files]))
        digest = hashlib.sha256(data).hexdigest()
        file = pool / f"{self.name}_{self.version.replace(':', '%3a')}_{digest[:8]}.deb"
        if not file.exists():
            file.write_bytes(data)
        entry = f"{self.control()}Filename: pool/{file.name}\nSize: {len(data)}\nSHA256: {digest}\n"
        if self.phased is not None:
            entry += f"Phased-Update-Percentage: {self.phased}\n"
        return entry + "\n"


def _tar(entries: Iterable[tuple[str, str, int]]) -> bytes:
    """Return an archive of texts, with the folders above them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        folders: set[str] = set()
        for path, text, mode in entries:
            for parent in reversed(Path(path).parents[:-1]):
                if str(parent) not in folders:
                    folders.add(str(parent))
                    one = tarfile.TarInfo(f"./{parent}")
                    one.type, one.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(one)
            info = tarfile.TarInfo(f"./{path}")
            info.mode = mode
            if text.startswith("->"):
                info.type, info.linkname = tarfile.SYMTYPE, text[2:]
                archive.addfile(info)
            else:
                data = text.encode()
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _member(name: str, data: bytes) -> bytes:
    """Return a member of an ar archive."""
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
    return head + data + b"\n" * (len(data) % 2)


class Mirror:
    """A mirror of a release in a folder, whose packages lie in a pool that others share."""

    def __init__(
        self,
        folder: Path,
        pool: Path,
        codename: str,
        *,
        origin: str = "Ubuntu",
        parts: tuple[str, ...] = COMPONENTS,
        suites: tuple[str, ...] = ("", "-updates"),
    ) -> None:
        folder.mkdir(parents=True)
        (folder / "pool").symlink_to(pool)
        self.folder, self.pool, self.codename = folder, pool, codename
        self.origin, self.parts, self.suites = origin, parts, suites

    def publish(self, packages: Iterable[Deb]) -> None:
        """Offer these packages and no others."""
        indexes = {
            (suite, part): ""
            for suite in (f"{self.codename}{one}" for one in self.suites)
            for part in self.parts
        }
        for one in packages:
            indexes[one.suite.replace("noble", self.codename), one.component] += one.write(
                self.pool
            )
        self._write(indexes)

    def _write(self, indexes: Mapping[tuple[str, str], str]) -> None:
        for suite in {suite for suite, _part in indexes}:
            base, sums = self.folder / "dists" / suite, ""
            for part in self.parts:
                path = base / part / "binary-amd64/Packages"
                path.parent.mkdir(parents=True, exist_ok=True)
                data = indexes[suite, part].encode()
                path.write_bytes(data)
                digest = hashlib.sha256(data).hexdigest()
                sums += f" {digest} {len(data)} {part}/binary-amd64/Packages\n"
            text = RELEASE.format(
                origin=self.origin,
                suite=suite,
                codename=self.codename,
                parts=" ".join(self.parts),
                sums=sums,
            )
            (base / "Release").write_text(text)
