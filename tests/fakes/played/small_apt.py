# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes whose apt and dpkg are genuine, in a folder, on a mirror of empty packages; all else is of dictionaries."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._host.packages.apt import (
    ARCHIVE,
    OWN_PREFERENCES,
)

from tests.fakes.library.fakes import FakeHost
from tests.fakes.packages.apt_nodes import FOLDERS, GENUINE, in_folder, missing
from tests.fakes.played.debs import Deb


def _memory(path: str = "/dev/shm") -> str | None:
    """Return a folder in memory where programs may run, since dpkg waits for the disk after each package."""
    usable = os.access(path, os.W_OK) and not os.statvfs(path).f_flag & os.ST_NOEXEC
    return path if usable else None


MEMORY = _memory()
POOL = tempfile.TemporaryDirectory(prefix="gpu-node-pool-", dir=MEMORY)
JOURNAL = "/var/lib/dpkg/updates"
BASE = "dpkg", "1.22", "ii "
WANTS = {"u": "unknown", "i": "install", "h": "hold", "r": "deinstall", "p": "purge"}
STATES = {"n": "not-installed", "c": "config-files", "H": "half-installed", "U": "unpacked"}
STATES |= {"F": "half-configured", "W": "triggers-awaited", "t": "triggers-pending"}
STATES |= {"i": "installed"}
STANZA = """\
Package: {name}
Status: {want} {flag} {state}
Maintainer: t <t@t>
Architecture: amd64
Version: {version}
{more}Description: small

"""
# Scripts see what the test wants in files of the node's folder.
TORN = """\
if [ "$(cat $DPKG_ROOT/torn 2>/dev/null)" = "{0}" ]; then
  rm "$DPKG_ROOT/torn"
  kill -9 $PPID
fi
"""
FAILS = """\
case "$(cat $DPKG_ROOT/fails 2>/dev/null)" in
  "{1} "|"{1} {0}") exit 1 ;;
esac
"""


class SmallApt(FakeHost):
    """A node that knows the mirror of one release.

    ``offers`` are the versions that the mirror has, by package, ``depends`` and ``conflicts`` what they need and
    exclude; the mirror follows with the next ``apt-get update``. ``answers`` are replayed by the next calls of apt-get
    that are no simulation; None lets one through. dpkg is killed at the package ``torn``; those of the version
    ``bad`` cannot be configured, or only the package ``only``.
    """

    codename, components = "trixie", ("main", "contrib", "non-free", "non-free-firmware")
    component = "non-free"

    def __init__(self, files: dict[str, str]) -> None:
        if lacking := missing(GENUINE):
            pytest.skip(lacking)
        super().__init__(files)
        self._temporary = tempfile.TemporaryDirectory(prefix="gpu-node-apt-", dir=MEMORY)
        self.folder, self.mirror = (Path(self._temporary.name) / one for one in ("node", "mirror"))
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True)
        self.offers: dict[str, list[str]] = {}
        self.depends: dict[str, list[str]] = {}
        self.conflicts: dict[str, list[str]] = {}
        self.sources: dict[str, str] = {}
        self.answers: list[Completed | None] = []
        self.torn = self.bad = self.only = ""
        (self.folder / "var/lib/dpkg/available").write_text("")
        (self.folder / "var/lib/dpkg/status").write_text("")
        self.put_package(*BASE)
        self.local = Host()
        self.commands = {(name,): self._genuine for name in GENUINE}
        self.commands["apt-get",] = self._apt_get

    # --- what a person does ---

    def update(self) -> None:
        """Let the node's lists follow the mirror."""
        done = self._genuine(("apt-get", "-q", "update"))
        assert done.rc == 0, done.err

    def put_package(self, name: str, version: str, state: str, *fields: str) -> None:
        """Have dpkg know a package in a state, as dpkg-query abbreviates it, with lines of its control file."""
        path = self.folder / "var/lib/dpkg/status"
        old = [one for one in path.read_text().split("\n\n") if one.strip()]
        there = [one for one in old if f"Package: {name}\n" in f"{one}\n"]
        kept = "".join(f"{one}\n\n" for one in old if one not in there)
        values = {"want": WANTS[state[0]], "state": STATES[state[1]]}
        values["flag"] = "reinstreq" if state[2:] == "R" else "ok"
        if there:
            status = "Status: {want} {flag} {state}".format(**values)
            new = re.sub(r"^Status: .*$", status, there[0], flags=re.M)
            new = re.sub(r"^Version: .*$", f"Version: {version}", new, flags=re.M) + "\n\n"
        else:
            more = "".join(f"{one}\n" for one in fields)
            new = STANZA.format(name=name, version=version, more=more, **values)
            new = new if version else new.replace("Version: \n", "")
        path.write_text(kept + new)
        if state[1] not in "n":
            (self.folder / f"var/lib/dpkg/info/{name}.list").write_text("/.\n")

    def copy_of(self, other: SmallApt) -> None:
        """Become another node, with a mirror of its own once that is to change."""
        shutil.rmtree(self.folder)
        shutil.copytree(other.folder, self.folder, symlinks=True)
        self.mirror = other.mirror
        self.files, self.links = dict(other.files), dict(other.links)
        self.times = dict(other.times)

    def keep(self, name: str, version: str) -> str:
        """Put a package into apt's archive, where downloads stay, and return its path."""
        (file,) = Path(POOL.name).glob(f"{name}_{version}_*.deb")
        path = f"{ARCHIVE}/{name}_{version}_amd64.deb"
        shutil.copy(file, f"{self.folder}{path}")
        self.files[path] = ""
        return path

    # --- what is there ---

    @property
    def packages(self) -> dict[str, tuple[str, str]]:
        """Return version and state of each package that dpkg knows."""
        form = "${Package}\\t${Version}\\t${db:Status-Abbrev}\\n"
        text = self._genuine(("dpkg-query", "-W", "-f", form, "*")).out
        rows = [line.split("\t") for line in text.split("\n") if line]
        return {name: (version, state) for name, version, state in rows if state != "un "}

    def changes(self) -> list[str]:
        """Return the last words of the commands that change packages."""
        return [
            words[-1]
            for words in self.ran
            if words[0] in ("apt-get", "dpkg", "apt-mark") and "--simulate" not in words
        ]

    def listdir(self, path: str) -> list[str]:
        found = super().listdir(path)
        return sorted(
            {*found, *self.local.listdir(f"{self.folder}{path}")} if path == JOURNAL else found
        )

    # --- its commands ---

    def _apt_get(self, words: tuple[str, ...]) -> Completed:
        answer = self.answers.pop(0) if self.answers and "--simulate" not in words else None
        return self._genuine(words) if answer is None else answer

    def _genuine(self, words: tuple[str, ...]) -> Completed:
        if words[-1] == "update":
            self._publish()
        self._write()
        options = in_folder(words[0], self.folder)
        moved = [self._moved(one) for one in words[1:]]
        done = self.local.run([words[0], *options, *moved], check=False)
        if not (self.folder / "torn").exists():
            self.torn = ""
        return Completed(done.rc, *(one.replace(str(self.folder), "") for one in done[1:]))

    def _moved(self, word: str) -> str:
        moved = word.replace(OWN_PREFERENCES, f"{self.folder}{OWN_PREFERENCES}")
        return f"{self.folder}{word}" if word.startswith(ARCHIVE) else moved

    def _write(self) -> None:
        """Write what apt reads, and what the scripts of packages read."""
        ours = ("/etc/apt/", OWN_PREFERENCES)
        wanted = {path: text for path, text in self.files.items() if path.startswith(ours)}
        for there in (self.folder / "etc/apt").rglob("*"):
            if there.is_file() and f"/{there.relative_to(self.folder)}" not in wanted:
                there.unlink()
        for path, text in wanted.items():
            real = re.sub(r"http://mirror/\w+", f"file:{self.mirror}", text)
            (self.folder / path[1:]).write_text(real)
        for name, value in (("torn", self.torn), ("fails", self.bad and f"{self.bad} {self.only}")):
            if value:
                (self.folder / name).write_text(value)
            else:
                (self.folder / name).unlink(missing_ok=True)

    def _publish(self) -> None:
        """Write the mirror anew."""
        self.mirror = Path(self._temporary.name) / "mirror"
        base = self.mirror / "dists" / self.codename
        base.mkdir(parents=True, exist_ok=True)
        (self.mirror / "pool").unlink(missing_ok=True)
        (self.mirror / "pool").symlink_to(POOL.name)
        indexes = dict.fromkeys(self.components, "")
        for name, versions in self.offers.items():
            part = "main" if name == "dkms" else self.component
            indexes[part] += "".join(self._entry(name, one) for one in versions)
        sums = ""
        for part, text in indexes.items():
            path = base / part / "binary-amd64/Packages"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            digest = hashlib.sha256(text.encode()).hexdigest()
            sums += f" {digest} {len(text)} {part}/binary-amd64/Packages\n"
        head = f"Origin: small\nSuite: {self.codename}\nCodename: {self.codename}\n"
        head += f"Architectures: amd64\nComponents: {' '.join(self.components)}\n"
        date = "Date: Sat, 01 Aug 2026 00:00:00 UTC\n"
        (base / "Release").write_text(f"{head}{date}SHA256:\n{sums}")

    def _entry(self, name: str, version: str) -> str:
        fields = (
            ("Depends", ", ".join(self.depends.get(name, []))),
            ("Conflicts", ", ".join(self.conflicts.get(name, []))),
        )
        scripts = (("preinst", TORN.format(name)), ("postinst", FAILS.format(name, version)))
        one = Deb(name, version, fields, self.sources.get(name, ""), scripts=scripts)
        return one.write(Path(POOL.name))


def changing(ran: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the calls of apt-get that change packages."""
    return [words for words in ran if words[:2] == ("apt-get", "-y")]
