# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A SUSE machine in a folder: genuine rpm and zypper, small packages, kernels that boot."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed, Host

from tests.fakes.played.rooted import H100, Rooted
from tests.fakes.played.suse.rpms import Repositories
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


class Suse(Rooted):
    """A machine that knows the channels of a stage; it runs ``kernel``, by default the second of its release."""

    genuine = ("rpm", "zypper")
    libraries = "/usr/lib64"
    modules_of = ("updates/nvidia.ko", "weak-updates/updates/nvidia.ko")

    def __init__(
        self,
        root: Path,
        channels: Repositories,
        stage: Stage,
        release: Release = SP7,
        kernel: str = "",
        gpu: str = H100,
    ) -> None:
        kernel = kernel or release.kernels[1]
        super().__init__(root, release.os_release, uname(kernel), gpu)
        self.channels = channels
        self.put("etc/zypp/zypp.conf", CONFIG)
        channels.publish(stage)
        for name in stage:
            entry = ENTRY.format(name=name, folder=channels.folder / name, refresh=0)
            self.put(f"etc/zypp/repos.d/{name}.repo", entry)
        # zypper does not bear a system without any package.
        file = channels.pool / f"x86_64/kernel-default-{kernel}.1.x86_64.rpm"
        self.run(["rpm", "--install", str(file)])
        self.zypper("refresh")

    # --- what a person does ---

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

    def installed(self) -> dict[str, str]:
        """Return what rpm has, by name; of the kernels the newest."""
        done = self.run(["rpm", "-qa", "--qf", "%{NAME} %{VERSION}\\n"])
        return dict(sorted(line.split() for line in done.out.split("\n") if line))

    def files(self) -> dict[str, bytes]:
        """Return all that is in the folder; zypper's --root moves also what a process has in /tmp."""
        moved = str(self.root / "tmp")
        return {path: data for path, data in super().files().items() if not path.startswith(moved)}

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

    def _genuine(self, words: tuple[str, ...], env: dict[str, str], stdin: str | None) -> Completed:
        named = env.get("ZYPP_CONF", "/etc/zypp/zypp.conf")
        own = {**env, "ZYPP_CONF": self.at(named), "ZYPP_LOCKFILE_ROOT": str(self.root)}
        return Host().run(
            [words[0], f"--root={self.root}", *words[1:]], check=False, env=own, stdin=stdin
        )
