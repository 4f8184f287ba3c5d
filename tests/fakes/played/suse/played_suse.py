# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A SUSE machine in a folder: genuine rpm and zypper, small packages, kernels that boot."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fakes.packages.driver_runs import converge
from tests.fakes.played import memory
from tests.fakes.played.rooted import H100
from tests.fakes.played.rpm_machine import RpmMachine
from tests.fakes.played.rpms import Repositories
from tests.fakes.played.suse.suse_archive import SP7, Release, Stage, uname

# As SUSE ships it.
CONFIG = """\
[main]
multiversion = provides:multiversion(kernel)
multiversion.kernels = latest,latest-1,running
"""
ENTRY = (
    "[{name}]\nname={name}\nbaseurl=file://{folder}\nenabled=1\ngpgcheck=0\nautorefresh={refresh}\n"
)
TOOLS = ("rpm", "zypper", "rpmbuild", "createrepo_c")


class Suse(RpmMachine):
    """A machine that runs ``kernel``, by default the second of its release."""

    genuine = ("rpm", "zypper", "gpgv")
    family = "suse"
    modules_of = ("updates/nvidia.ko", "weak-updates/updates/nvidia.ko")

    def __init__(
        self, root: Path, channels: Repositories, release: Release = SP7, kernel: str = ""
    ) -> None:
        self.channels, self.release = channels, release
        self.kernel = kernel or release.kernels[1]
        super().__init__(root, release.os_release, uname(self.kernel), H100)

    # --- what a person does ---

    def install(self, stage: Stage) -> None:
        """Install the system, which knows the channels of a stage."""
        self.put("etc/zypp/zypp.conf", CONFIG)
        self.channels.publish(stage)
        for name in stage:
            entry = ENTRY.format(name=name, folder=self.channels.folder / name, refresh=0)
            self.put(f"etc/zypp/repos.d/{name}.repo", entry)
        # zypper does not bear a system without any package.
        (first,) = (
            one
            for one in stage["sle"]
            if (one.name, one.version) == ("kernel-default", f"{self.kernel}.1")
        )
        self.run(["rpm", "--install", str(first.path)])
        self.zypper("refresh")

    def zypper(self, *words: str) -> str:
        """Run zypper as a person would; it must succeed."""
        done = self.run(["zypper", "--non-interactive", *words], check=False)
        assert done.rc == 0, done.out + done.err
        return done.out

    def archive(self, stage: Stage, *, lists: bool = True) -> None:
        """Let the channels move on; the node's lists follow, unless they stay as they were."""
        self.channels.publish(stage)
        if lists:
            self.zypper("refresh")

    # --- what is there ---

    def files(self) -> dict[str, bytes]:
        """Return all that is in the folder, but for what zypper keeps of rpm's database.

        Its --root moves also a process' temporary folder.
        """
        passing = (
            f"{self.root}{tempfile.gettempdir()}/",
            f"{self.root}/var/cache/zypp/solv/@System/",
        )
        return {
            path: data for path, data in super().files().items() if not path.startswith(passing)
        }

    def devel(self) -> set[str]:
        """Return the versions of the headers that are installed."""
        words = ["rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}\\n", "kernel-default-devel"]
        done = self.run(words, check=False)
        return set(done.out.split()) if done.rc == 0 else set()

    def locks(self) -> str:
        """Return zypper's file of locks."""
        return self.read("/etc/zypp/locks") or ""

    def held(self) -> set[str]:
        """Return the names that are locked."""
        done = self.zypper("--quiet", "locks")
        rows = [line.split("|") for line in done.split("\n") if line[:1].isdigit()]
        return {row[1].strip() for row in rows}

    # --- its commands ---

    def command(
        self, words: Sequence[str], env: Mapping[str, str] | None = None
    ) -> tuple[list[str], dict[str, str]]:
        """Return what makes rpm or zypper work in the machine's folder: words and environment."""
        if words[0] == "gpgv":
            return [*words], {}
        named = (env or {}).get("ZYPP_CONF", "/etc/zypp/zypp.conf")
        own = {"ZYPP_CONF": self.at(named), "ZYPP_LOCKFILE_ROOT": str(self.root)}
        return [words[0], f"--root={self.root}", *words[1:]], {**(env or {}), **own}


class Machines:
    """Makers of machines in a folder: as they are installed, or with the driver, each made once and copied."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __call__(self, stage: Stage, release: Release = SP7, kernel: str = "") -> Suse:
        """Return a machine that knows the channels of a stage."""
        return self._made(stage, release, kernel, "", lambda _node: None)

    def driven(self, stage: Stage, release: Release = SP7, **options: Any) -> Suse:
        """Return such a machine with the driver that these options bring."""

        def bring(node: Suse) -> None:
            assert converge(node, **options).steps == ()

        return self._made(stage, release, "", repr(sorted(options.items())), bring)

    def _made(
        self, stage: Stage, release: Release, kernel: str, more: str, make: Callable[[Suse], None]
    ) -> Suse:
        channels = Repositories(self._place / "channels")
        node = Suse(self._place / "node", channels, release, kernel)
        key = Suse, release, node.kernel, tuple(stage.items())

        def whole() -> None:
            memory.once(key, self._place, lambda: node.install(stage))
            make(node)

        memory.once((*key, more), self._place, whole)
        node.ran.clear()
        return node
