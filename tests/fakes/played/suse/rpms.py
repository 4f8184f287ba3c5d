# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Small RPMs with genuine names, versions and relations, many of one rpmbuild, and repositories of them."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

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
OPTIONS = {
    "_binary_payload": "w0.gzdio",
    "_build_id_links": "none",
    "__os_install_post": "%{nil}",
    "__brp_mangle_shebangs": "%{nil}",
}


@dataclasses.dataclass(frozen=True)
class Rpm:
    """A package; ``relations`` are lines of its spec, ``files`` texts by path, ``scripts`` lua by its moment."""

    name: str
    version: str
    relations: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return f"{self.name}-{self.version}.x86_64.rpm"

    def spec(self) -> str:
        """Return its sections of a spec, whose files lie below FILES."""
        version, release = self.version.split("-", 1)
        parts = {"name": self.name, "version": version, "release": release}
        text = PART.format(relations="\n".join(self.relations), **parts)
        for when, script in self.scripts:
            text += SCRIPT.format(when=when, name=self.name, text=script)
        rows = "".join(f"/{path}\n" for path, _text in self.files)
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


def build(pool: Path, packages: Iterable[Rpm]) -> None:
    """Build what the pool does not have yet."""
    lacking = [one for one in dict.fromkeys(packages) if not (pool / "x86_64" / one.file).exists()]
    for number, batch in enumerate(_batches(lacking)):
        work = pool / f"work-{number}"
        files = {path: text for one in batch for path, text in one.files}
        for path, text in files.items():
            (work / "files" / path).parent.mkdir(parents=True, exist_ok=True)
            (work / "files" / path).write_text(text)
        install = f"%install\ncp -a {work}/files/. %{{buildroot}}\n" if files else ""
        spec = work / "played.spec"
        spec.parent.mkdir(exist_ok=True)
        spec.write_text(HEAD + install + "".join(one.spec() for one in batch))
        words = ["rpmbuild", "-bb", "--target", "x86_64", "--define", f"_topdir {work}"]
        words += ["--define", f"_rpmdir {pool}"]
        words += [word for key, value in OPTIONS.items() for word in ("--define", f"{key} {value}")]
        subprocess.run([*words, str(spec)], check=True, capture_output=True, text=True)
        shutil.rmtree(work)


class Repositories:
    """Repositories by name in a folder, whose packages lie in a pool that others share."""

    def __init__(self, folder: Path, pool: Path) -> None:
        self.folder, self.pool = folder, pool

    def publish(self, offered: Mapping[str, Iterable[Rpm]]) -> None:
        """Offer these packages and no others."""
        for name, packages in offered.items():
            folder = self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob("*.rpm"):
                old.unlink()
            for one in packages:
                (folder / one.file).symlink_to(self.pool / "x86_64" / one.file)
            words = ["createrepo_c", "--quiet", str(folder)]
            subprocess.run(words, check=True, capture_output=True, text=True)
