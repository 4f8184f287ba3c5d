# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Small Debian packages with genuine names, versions and relations, and a mirror that has them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import tarfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tests.fakes.played import memory

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

    def data(self) -> bytes:
        """Return the package's file."""
        data = b"!<arch>\n" + _member("debian-binary", b"2.0\n")
        scripts = [(name, f"#!/bin/sh\nset -e\n{text}", 0o755) for name, text in self.scripts]
        data += _member("control.tar", _tar([("control", self.control(), 0o644), *scripts]))
        return data + _member("data.tar", _tar([(path, text, 0o644) for path, text in self.files]))


@functools.cache
def _entry(one: Deb) -> str:
    """Write a package into the pool of this process, and return its entry of an index."""
    data = one.data()
    digest = hashlib.sha256(data).hexdigest()
    file = pool() / f"{one.name}_{one.version.replace(':', '%3a')}_{digest[:8]}.deb"
    file.write_bytes(data)
    entry = f"{one.control()}Filename: pool/{file.name}\nSize: {len(data)}\nSHA256: {digest}\n"
    if one.phased is not None:
        entry += f"Phased-Update-Percentage: {one.phased}\n"
    return entry + "\n"


def pool() -> Path:
    """Return the folder that all mirrors take their packages from."""
    return memory.shared("pool")


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


# What scripts look up in files of the node's folder: the package that dpkg is killed at, and the version that cannot
# be configured, of all packages or of one.
TORN = """\
if [ "$(cat "$DPKG_ROOT/torn" 2>/dev/null)" = "{name}" ]; then
  rm "$DPKG_ROOT/torn"
  kill -9 $PPID
fi
"""
FAILS = """\
case "$(cat "$DPKG_ROOT/fails" 2>/dev/null)" in
  "{version}"|"{version} {name}") exit 1 ;;
esac
"""


def fragile(one: Deb) -> Deb:
    """Return a package that dpkg is killed at, or that cannot be configured, where the node's files say so."""
    scripts = dict(one.scripts)
    for name, text in (("preinst", TORN), ("postinst", FAILS)):
        scripts[name] = text.format(name=one.name, version=one.version) + scripts.get(name, "")
    return dataclasses.replace(one, scripts=tuple(scripts.items()))


class Mirror:
    """A mirror of a release in a folder."""

    def __init__(
        self,
        folder: Path,
        codename: str,
        *,
        origin: str = "Ubuntu",
        parts: tuple[str, ...] = COMPONENTS,
        suites: tuple[str, ...] = ("", "-updates"),
    ) -> None:
        self.folder, self.codename = folder, codename
        self.origin, self.parts, self.suites = origin, parts, suites

    def publish(self, packages: Iterable[Deb], gone: Collection[str] = ()) -> None:
        """Offer these packages and no others; the files of those that are ``gone`` are not there."""
        indexes = {
            (suite, part): ""
            for suite in (f"{self.codename}{one}" for one in self.suites)
            for part in self.parts
        }
        for one in packages:
            entry = _entry(one)
            entry = (
                entry.replace("\nFilename: ", "\nFilename: gone/") if one.name in gone else entry
            )
            indexes[one.suite.replace("noble", self.codename), one.component] += entry
        self._write(indexes)
        if not (self.folder / "pool").is_symlink():
            (self.folder / "pool").symlink_to(pool())  # that all mirrors share

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
