# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes whose apt and dpkg are genuine, in a folder, with signed repositories of small packages."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import OWN_PREFERENCES

from tests.fakes.library.fakes import DRIVER, GPU, LOADED, OS_RELEASE, FakeHost
from tests.fakes.packages.pgp_keys import Key

TOOLS = ("apt-get", "apt-cache", "apt-mark", "dpkg", "dpkg-query", "dpkg-deb", "gpg")
GENUINE = ("apt-get", "apt-cache", "apt-mark", "dpkg", "dpkg-query")
KEYS = "/etc/apt/keyrings"
BASE = """\
Package: dpkg
Status: install ok installed
Maintainer: test <t@t>
Architecture: amd64
Version: 1.22
Description: test
"""
FOLDERS = (
    "etc/apt/sources.list.d",
    "etc/apt/preferences.d",
    "etc/apt/keyrings",
    "etc/apt/apt.conf.d",
    "etc/apt/trusted.gpg.d",
    "var/lib/dpkg/info",
    "var/lib/dpkg/updates",
    "var/lib/dpkg/triggers",
    "var/lib/apt/lists/partial",
    "var/cache/apt/archives/partial",
    "var/lib/gpu-node",
    "var/log/apt",
)


def missing(tools: Iterable[str] = TOOLS) -> str:
    """Say what the machine lacks for tests with these programs."""
    lacking = [name for name in tools if shutil.which(name) is None]
    if lacking:
        return f"needs {', '.join(lacking)}"
    return "" if os.geteuid() == 0 else "needs root"


def in_folder(program: str, root: Path, *, signed: bool = False) -> list[str]:
    """Return the options that make a program of apt's or dpkg's work in a folder.

    Unless packages are to be ``signed``, it takes those without signatures too.
    """
    dpkg = [f"--root={root}", "--force-script-chrootless", "--force-not-root", "--force-unsafe-io"]
    if program == "dpkg-query":
        return [f"--root={root}"]
    if not program.startswith("apt-"):
        return dpkg
    settings = [
        f"Dir={root}",
        "APT::Sandbox::User=root",
        f"Dir::State::status={root}/var/lib/dpkg/status",
    ]
    settings += ["APT::Architecture=amd64", "APT::Architectures::=amd64"]
    if not signed:
        settings += ["APT::Get::AllowUnauthenticated=true"]
        settings += ["Acquire::AllowInsecureRepositories=true"]
    settings += [f"DPkg::Options::={one}" for one in dpkg]
    return [word for one in settings for word in ("-o", one)]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_values: object) -> None:
        """Say nothing."""


class Repository:
    """A flat repository of packages without content; ``add`` and then ``publish``."""

    def __init__(self, folder: Path, key: Key) -> None:
        folder.mkdir(parents=True)
        self.folder, self.key = folder, key
        self.index, self.url = "", f"file://{folder}"
        self._second = 1_700_000_000

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Offer it through HTTP: what has no host cannot be told from others by apt's pins."""
        handler = functools.partial(_Quiet, directory=str(self.folder))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.url = f"http://127.0.0.1:{server.server_port}"
            yield
            server.shutdown()

    def add(self, name: str, version: str, *relations: str) -> None:
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: test <t@t>\n"
        )
        control += "".join(f"{line}\n" for line in relations) + "Description: test\n"
        tree = self.folder / "tree"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(control)
        file = self.folder / f"{name}_{version}_all.deb"
        words = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(file)]
        subprocess.run(words, check=True, capture_output=True)
        shutil.rmtree(tree)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        self.index += f"{control}Filename: ./{file.name}\nSize: {file.stat().st_size}\n"
        self.index += f"SHA256: {digest}\n\n"

    def lose(self, version: str) -> None:
        """Have the files of a version go, which the index still has."""
        for path in self.folder.glob(f"*_{version}_all.deb"):
            path.unlink()

    def publish(self) -> None:
        (self.folder / "Packages").write_text(self.index)
        data = self.index.encode()
        release = "Origin: test\nDate: Sat, 01 Aug 2026 00:00:00 UTC\nSHA256:\n"
        release += f" {hashlib.sha256(data).hexdigest()} {len(data)} Packages\n"
        (self.folder / "Release").write_text(release)
        words = ["--clearsign", "--output", f"{self.folder}/InRelease", f"{self.folder}/Release"]
        self.key.gpg(words)
        # HTTP tells what has changed by whole seconds, and two changes may fall into one.
        self._second += 1
        for name in ("Packages", "Release", "InRelease"):
            os.utime(self.folder / name, (self._second, self._second))


class AptNode(FakeHost):
    """A trixie node with an H100 in a folder: its package manager is genuine, all else is not.

    apt reads our own files below ``root``; the key's path, which apt takes as it is, is led there.
    """

    def __init__(self, root: Path, distribution: Repository) -> None:
        super().__init__(
            {
                "/etc/os-release": OS_RELEASE,
                "/proc/sys/kernel/osrelease": "6.12.1\n",
                "/lib/modules/6.12.1/build": "",
                f"{GPU}/vendor": "0x10de\n",
                f"{GPU}/device": "0x2330\n",
                f"{GPU}/class": "0x030200\n",
            }
        )
        self.root, self.local, self.enabled = root, Host(), False
        for name in FOLDERS:
            (root / name).mkdir(parents=True)
        (root / "var/lib/dpkg/status").write_text(BASE)
        (root / "var/lib/dpkg/available").write_text("")
        key = root / "etc/apt/trusted.gpg.d/distribution.asc"
        key.write_text(distribution.key.armoured)
        sources = f"deb [signed-by={key}] {distribution.url} ./\n"
        (root / "etc/apt/sources.list").write_text(sources)
        self.commands = {
            ("systemctl", "show"): self._show,
            ("systemctl", "enable"): self._switch,
            ("systemctl", "disable"): self._switch,
            ("modprobe",): self._modprobe,
            **{(name,): self._genuine for name in GENUINE},
        }

    def _genuine(self, words: tuple[str, ...]) -> Completed:
        options = in_folder(words[0], self.root, signed=True)
        rest = [
            word.replace(OWN_PREFERENCES, f"{self.root}{OWN_PREFERENCES}") for word in words[1:]
        ]
        return self.local.run([words[0], *options, *rest], check=False)

    def _below(self, path: str) -> str | None:
        return f"{self.root}{path}" if path in (*PLACE.paths, OWN_PREFERENCES) else None

    def read(self, path: str) -> str | None:
        below = self._below(path)
        if below is None:
            return super().read(path)
        text = self.local.read(below)
        return text and text.replace(f"{self.root}{KEYS}", KEYS)

    def write(self, path: str, text: str, **values):  # type: ignore[no-untyped-def]
        below = self._below(path)
        if below is None:
            return super().write(path, text, **values)
        return self.local.write(below, text.replace(KEYS, f"{self.root}{KEYS}"), **values)

    def remove(self, path: str) -> bool:
        below = self._below(path)
        return super().remove(path) if below is None else self.local.remove(below)

    def lock_holder(self, path: str) -> int | None:
        return self.local.lock_holder(f"{self.root}{path}")

    def installed(self) -> dict[str, str]:
        """Return what dpkg has, by name."""
        words = ("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n")
        rows = [line.split() for line in self._genuine(words).out.split("\n") if line]
        return {row[0]: row[1] for row in rows if row[2] == "installed" and row[0] != "dpkg"}

    def _show(self, _words: tuple[str, ...]) -> Completed:
        states = "ActiveState=active\nUnitFileState=enabled\n"
        return Completed(0, states if self.enabled else "ActiveState=inactive\n", "")

    def _switch(self, words: tuple[str, ...]) -> Completed:
        self.enabled = words[1] == "enable"
        return Completed(0, "", "")

    def _modprobe(self, _words: tuple[str, ...]) -> Completed:
        there = self.installed()
        version = next(there[name] for name in there if "-dkms" in name)
        self.files[DRIVER] = LOADED.format(version.split("-")[0])
        self.files[f"/lib/firmware/nvidia/{version.split('-')[0]}/gsp_ga10x.bin"] = ""
        return Completed(0, "", "")
