# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine in a folder whose apt and dpkg are genuine, with small packages and kernels that boot.

Its files are real ones below ``root``. What only a machine has is played: systemd, depmod, modprobe, the boot.
GPUNODE_APT names a folder in which another apt is unpacked with its libraries; it plays in place of the machine's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import (
    ARCHIVE,
    OWN_PREFERENCES,
)

from tests.fakes.packages.apt_nodes import BASE, GENUINE, in_folder
from tests.fakes.packages.apt_nodes import FOLDERS as APT_FOLDERS
from tests.fakes.played.debs import Deb, Mirror
from tests.fakes.played.rooted import H100, Rooted

FOLDERS = (*APT_FOLDERS, "lib/modules", "boot", "run")
TOOLS = (*GENUINE, "dpkg-deb")
STATUS = "var/lib/dpkg/status"


class AptMachine(Rooted):
    """A machine with a GPU whose archive is ``mirror``; it has run ``kernel`` since it was installed.

    ``flavour`` is what brings its kernels, as generic in linux-generic. A subclass has the ``os_release`` of the
    codename noble, and the components that the archive's first installation enables (``main``), and ``all_parts``.
    """

    genuine = GENUINE
    os_release = main = all_parts = ""

    def __init__(
        self, root: Path, mirror: Mirror, kernel: str, gpu: str = H100, flavour: str = ""
    ) -> None:
        os_release = self.os_release.replace("noble", mirror.codename)
        super().__init__(root, os_release, kernel, gpu)
        self.mirror, self.kernel, self.flavour = mirror, kernel, flavour

    @staticmethod
    def kernels(kernel: str, flavour: str) -> tuple[str, ...]:
        """Return the packages with which a machine is installed."""
        raise NotImplementedError

    # --- what a person does ---

    def install(self) -> None:
        """Install the system."""
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.put(STATUS, f"{BASE}\n")
        self.put("var/lib/dpkg/available", "")
        url = f"file:{self.mirror.folder}"
        suites = [f"{self.mirror.codename}{one}" for one in self.mirror.suites]
        text = "".join(f"deb {url} {one} {self.main}\n" for one in suites)
        self.put("etc/apt/sources.list", text)
        self.apt("update")
        flavour = self.flavour or self.kernel.rpartition("-")[2]
        self.apt("install", *self.kernels(self.kernel, flavour))

    def apt(self, *words: str) -> str:
        """Run apt-get as a person would; it must succeed."""
        done = self.run(["apt-get", "-y", "-q", "--no-install-recommends", *words], check=False)
        assert done.rc == 0, done.out + done.err
        return done.out

    def archive(
        self, packages: Iterable[Deb], *, lists: bool = True, gone: Collection[str] = ()
    ) -> None:
        """Let the archive move on, which has lost the files of what is ``gone``; the node's lists follow, or stay."""
        self.mirror.publish(packages, gone)
        if lists:
            self.apt("update")

    def enable(self) -> None:
        """Enable the components that have the driver, as Ubuntu's installer does."""
        text = (self.root / "etc/apt/sources.list").read_text()
        self.put("etc/apt/sources.list", text.replace(f" {self.main}\n", f" {self.all_parts}\n"))
        self.apt("update")

    def unattended(self) -> None:
        """Play a night of unattended-upgrades, which moves kernels and drivers alike."""
        self.apt("update")
        self.apt("dist-upgrade")

    def torn(self, name: str, status: str) -> None:
        """Have dpkg know a package that is there in another state, as "hold reinstreq half-installed"."""
        text = (self.root / STATUS).read_text()
        pattern = rf"(?<=^Package: {re.escape(name)}\nStatus: ).*$"
        text, count = re.subn(pattern, status, text, flags=re.MULTILINE)
        assert count == 1, name
        self.put(STATUS, text)

    # --- what is there ---

    def installed(self) -> dict[str, str]:
        """Return what dpkg has, by name."""
        words = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n"]
        rows = [line.split() for line in self.run(words).out.split("\n") if line]
        return {row[0]: row[1] for row in rows if row[2] == "installed" and row[0] != "dpkg"}

    def held(self) -> set[str]:
        """Return what is on hold."""
        return self._marked("showhold")

    def automatic(self) -> set[str]:
        """Return what came as a dependency."""
        return self._marked("showauto")

    def _marked(self, verb: str) -> set[str]:
        return set(self.run(["apt-mark", verb]).out.split())

    def changes(self) -> list[tuple[str, ...]]:
        """Return the calls of apt-get that change packages."""
        return [words for words in self.ran if words[:4] == ("apt-get", "-y", "-q", "-o")]

    # --- its commands ---

    def _genuine(self, words: tuple[str, ...], env: dict[str, str], stdin: str | None) -> Completed:
        options = in_folder(words[0], self.root)
        rest = [self.at(one) if one.startswith(ARCHIVE) else one for one in words[1:]]
        rest = [one.replace(OWN_PREFERENCES, self.at(OWN_PREFERENCES)) for one in rest]
        program = [words[0]]
        if (other := os.environ.get("GPUNODE_APT")) and words[0].startswith("apt-"):
            libraries = f"{other}/usr/lib/x86_64-linux-gnu"
            program = [f"{libraries}/ld-linux-x86-64.so.2", "--library-path", libraries]
            program.append(f"{other}/usr/bin/{words[0]}")
        return Host().run([*program, *options, *rest], check=False, env=env, stdin=stdin)
