# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Small RPMs with genuine names, versions and relations, many of one rpmbuild, and repositories of them.

Each package and each repository is made once in a process, whoever asks for it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.fakes.packages.pgp_keys import Key
from tests.fakes.played import memory

HEAD = """\
Name: played
Version: 1
Release: 1
Summary: played
License: none
AutoReqProv: no
%description
played
"""
PART = """\
%package -n {name}
Version: {version}
Release: {release}
Summary: played
AutoReqProv: no
{relations}
%description -n {name}
played
"""
SCRIPT = """\
%{when} -n {name} -p <lua>
{text}
"""
FAILS = 'error("the test wants this package to fail")\n'
OPTIONS = {
    "_binary_payload": "w0.gzdio",
    "_build_id_links": "none",
    "__os_install_post": "%{nil}",
    "__brp_mangle_shebangs": "%{nil}",
}


@dataclasses.dataclass(frozen=True)
class Rpm:
    """A package; ``relations`` are lines of its spec, ``files`` texts by path, or links to ->TARGET.

    ``folders`` are those that go with it, ``scripts`` lua by its moment.
    """

    name: str
    version: str
    relations: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    epoch: int = 0

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return f"{self.name}-{self.version}.x86_64.rpm"

    @property
    def full(self) -> str:
        """Return its name and version as module streams have them."""
        return f"{self.name}-{self.epoch}:{self.version}.x86_64"

    @functools.cached_property
    def path(self) -> Path:
        """Return where it lies once it is built."""
        digest = hashlib.sha256(self.spec().encode() + repr(self.files).encode()).hexdigest()
        return memory.shared("rpms") / digest[:16] / self.file

    def spec(self) -> str:
        """Return its sections of a spec, whose files lie below FILES."""
        version, release = self.version.split("-", 1)
        parts = {"name": self.name, "version": version, "release": release}
        lines = [*([f"Epoch: {self.epoch}"] if self.epoch else []), *self.relations]
        text = PART.format(relations="\n".join(lines), **parts)
        for when, script in self.scripts:
            text += SCRIPT.format(when=when, name=self.name, text=script)
        rows = "".join(f"%dir /{path}\n" for path in self.folders)
        rows += "".join(f"/{path}\n" for path, _text in self.files)
        return f"{text}%files -n {self.name}\n{rows}"


def _batches(packages: Iterable[Rpm]) -> list[list[Rpm]]:
    """Return the packages so that each batch has a name and a file once."""
    batches: list[list[Rpm]] = []
    for one in packages:
        paths = {path for path, _text in one.files}
        for batch in batches:
            taken = {path for other in batch for path, _text in other.files}
            if one.name not in {other.name for other in batch} and not taken & paths:
                batch.append(one)
                break
        else:
            batches.append([one])
    return batches


def build(packages: Iterable[Rpm]) -> None:
    """Build what is not there yet."""
    lacking = [one for one in dict.fromkeys(packages) if not one.path.exists()]
    for batch in _batches(lacking):
        _build(batch, memory.shared("rpmbuild") / "work")


def _build(batch: Iterable[Rpm], work: Path) -> None:
    """Have one rpmbuild make packages."""
    batch = list(batch)
    for path, text in (pair for one in batch for pair in one.files):
        there = work / "files" / path
        there.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            there.symlink_to(text[2:])
        else:
            there.write_text(text)
    for path in (path for one in batch for path in one.folders):
        (work / "files" / path).mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    (work / "files").mkdir(exist_ok=True)
    install = f"%install\ncp -a {work}/files/. %{{buildroot}}\n"
    spec = work / "played.spec"
    spec.write_text(HEAD + install + "".join(one.spec() for one in batch))
    defined = {"_topdir": str(work), "_rpmdir": str(work / "made"), **OPTIONS}
    words = [word for key, value in defined.items() for word in ("--define", f"{key} {value}")]
    command = ["rpmbuild", "-bb", "--target", "x86_64", *words, str(spec)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    for one in batch:
        one.path.parent.mkdir()
        (work / "made/x86_64" / one.file).rename(one.path)
    shutil.rmtree(work)


@functools.cache
def repository(packages: tuple[Rpm, ...], modules: str = "") -> Path:
    """Return a repository of packages, with the description of module streams where there are some."""
    build(packages)
    names = "".join(str(one.path) for one in packages)
    folder = (
        memory.shared("repositories") / hashlib.sha256(f"{names}{modules}".encode()).hexdigest()
    )
    folder.mkdir()
    for one in packages:
        (folder / one.file).symlink_to(one.path)
    index(folder, modules)
    return folder


@functools.cache
def signed(key: Key, packages: tuple[Rpm, ...]) -> Path:
    """Return a repository of packages that a key has signed."""
    build(packages)
    folder = memory.shared("signed") / str(signed.cache_info().misses)
    folder.mkdir()
    for one in packages:
        shutil.copy(one.path, folder)
    key.sign_rpms(folder)
    return index(folder)


def index(folder: Path, modules: str = "") -> Path:
    """Write the index of a folder with packages."""
    words = ["createrepo_c", "--quiet", str(folder)]
    subprocess.run(words, check=True, capture_output=True, text=True)
    if modules:
        (folder / "modules.yaml").write_text(modules)
        words = ["modifyrepo_c", "--mdtype=modules", str(folder / "modules.yaml")]
        subprocess.run([*words, str(folder / "repodata")], check=True, capture_output=True)
    return folder


class Repositories:
    """Repositories by name in a folder, which can be others at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def publish(
        self, offered: Mapping[str, Iterable[Rpm]], modules: Mapping[str, str] | None = None
    ) -> None:
        """Offer these packages and no others; ``modules`` are descriptions of streams by repository."""
        self.folder.mkdir(exist_ok=True)
        build(one for packages in offered.values() for one in packages)
        for name, packages in offered.items():
            self.name(name, repository(tuple(packages), (modules or {}).get(name, "")))

    def name(self, name: str, folder: Path) -> None:
        """Have a repository be another folder."""
        (self.folder / name).unlink(missing_ok=True)
        (self.folder / name).symlink_to(folder)
