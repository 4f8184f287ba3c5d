# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An Ubuntu 24.04 machine in a folder: genuine apt and dpkg, small packages, kernels that boot.

Its files are real ones below ``root``. What only a machine has is played: systemd, depmod, modprobe, the boot.
GPUNODE_APT names a folder in which another apt is unpacked with its libraries; it plays in place of the machine's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed, Host

from tests.fakes.packages.apt_nodes import FOLDERS as APT_FOLDERS
from tests.fakes.packages.apt_nodes import GENUINE, in_folder
from tests.fakes.played.debs import Deb, Mirror
from tests.fakes.played.rooted import H100, Rooted

OS_RELEASE = (
    'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'
)
BASE = (
    "Package: dpkg\nStatus: install ok installed\nMaintainer: t <t@t>\nArchitecture: amd64\nVersion: 1.22.6\n"
    "Description: played\n"
)
FOLDERS = (*APT_FOLDERS, "lib/modules", "boot", "run")
TOOLS = (*GENUINE, "dpkg-deb")
# apt's own files, which it takes as they are named.
OWN = "/var/lib/gpu-node/apt-preferences"


class Ubuntu(Rooted):
    """A machine with a GPU whose archive is ``mirror``; it has run ``kernel`` since it was installed.

    ``flavour`` is what brings its kernels, as generic in linux-generic.
    """

    os_release = OS_RELEASE
    main, all_parts = "main universe", "main restricted multiverse"

    def __init__(
        self, root: Path, mirror: Mirror, kernel: str, gpu: str = H100, flavour: str = ""
    ) -> None:
        os_release = self.os_release.replace("noble", mirror.codename)
        super().__init__(root, os_release, kernel, gpu)
        self.mirror = mirror
        for name in FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)
        self.put("var/lib/dpkg/status", BASE)
        self.put("var/lib/dpkg/available", "")
        url = f"file:{mirror.folder}"
        suites = [f"{mirror.codename}{one}" for one in mirror.suites]
        self.put(
            "etc/apt/sources.list", "".join(f"deb {url} {one} {self.main}\n" for one in suites)
        )
        self.apt("update")
        self.apt("install", *self.kernels(kernel, flavour or kernel.rpartition("-")[2]))

    genuine = GENUINE

    @staticmethod
    def kernels(kernel: str, flavour: str) -> tuple[str, ...]:
        """Return the packages with which a machine is installed."""
        return (f"linux-{flavour}", f"linux-image-{kernel}")

    # --- what a person does ---

    def apt(self, *words: str) -> str:
        """Run apt-get as a person would; it must succeed."""
        done = self.run(["apt-get", "-y", "-q", "--no-install-recommends", *words], check=False)
        assert done.rc == 0, done.out + done.err
        return done.out

    def archive(self, packages: Iterable[Deb], *, lists: bool = True) -> None:
        """Let the archive move on; the node's lists follow, unless they stay as they were."""
        self.mirror.publish(packages)
        if lists:
            self.apt("update")

    def enable(self) -> None:
        """Enable the components that have the driver, as Ubuntu's installer does."""
        text = (self.root / "etc/apt/sources.list").read_text()
        self.put("etc/apt/sources.list", text.replace(f" {self.main}\n", f" {self.all_parts}\n"))
        self.apt("update")

    def unattended(self) -> None:
        """Play a night of unattended-upgrades, which moves kernels and drivers alike (F11)."""
        self.apt("update")
        self.apt("dist-upgrade")

    # --- what is there ---

    def installed(self) -> dict[str, str]:
        """Return what dpkg has, by name."""
        words = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n"]
        rows = [line.split() for line in self.run(words).out.split("\n") if line]
        return {row[0]: row[1] for row in rows if row[2] == "installed" and row[0] != "dpkg"}

    def held(self) -> set[str]:
        """Return what is on hold."""
        return set(self.run(["apt-mark", "showhold"]).out.split())

    # --- its commands ---

    def _genuine(self, words: tuple[str, ...], env: dict[str, str], stdin: str | None) -> Completed:
        options = in_folder(words[0], self.root)
        rest = [word.replace(OWN, self.at(OWN)) for word in words[1:]]
        program = [words[0]]
        if (other := os.environ.get("GPUNODE_APT")) and words[0].startswith("apt-"):
            libraries = f"{other}/usr/lib/x86_64-linux-gnu"
            program = [f"{libraries}/ld-linux-x86-64.so.2", "--library-path", libraries]
            program.append(f"{other}/usr/bin/{words[0]}")
        return Host().run([*program, *options, *rest], check=False, env=env)
