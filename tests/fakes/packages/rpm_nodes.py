# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes whose rpm, dnf and zypper are genuine, in a folder, with a repository of small packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._driver.families.rhel import (
    MODULE_FILE as STREAM_FILE,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.dnf import DNF_LOCKS
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.zypper import (
    LOCKS as ZYPPER_LOCKS,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.zypper import PRIVATE

from tests.fakes.library.fakes import FakeHost
from tests.fakes.packages.debian import DRIVER, GPU, LOADED
from tests.fakes.packages.pgp_keys import Key

ZYPPER_PRIVATE = PRIVATE.format("")
BASE = "basesystem"  # zypper does not bear a system without any package
SYSTEMS = {
    "dnf": 'ID="rocky"\nVERSION_ID="9.5"\nPRETTY_NAME="Rocky Linux 9.5"\n',
    "zypper": 'ID="opensuse-leap"\nVERSION_ID="15.6"\nPRETTY_NAME="openSUSE Leap 15.6"\n',
}
TOOLS = ("rpm", "rpmbuild", "createrepo_c")
SPEC = """\
Name: nvidia-all
Epoch: {epoch}
Version: {version}
Release: {release}
Summary: test
License: none
BuildArch: noarch
%description
test
"""
PART = """\
%package -n {name}
Summary: test
{relations}
%description -n {name}
test
%files -n {name}
"""
STARTED = "started"
VERSION = "580.95.05"
RHEL = {
    "kmod-nvidia-open-dkms": "Requires: dkms\nConflicts: kmod-nvidia-latest-dkms\nProvides: nvidia-kmod",
    "kmod-nvidia-latest-dkms": "Requires: dkms\nConflicts: kmod-nvidia-open-dkms\nProvides: nvidia-kmod",
    "nvidia-driver-cuda-libs": "",
    "nvidia-driver-cuda": "Requires: nvidia-driver-cuda-libs = {version}",
    "nvidia-persistenced": "",
}
SUSE = {
    "nvidia-compute-G06": "",
    "nvidia-compute-utils-G06": "Requires: nvidia-compute-G06 = {version}",
}
SUSE_MODULES = {"nvidia-open-driver-G06-signed-kmp-default": ""}
OTHERS = {"dkms": "", BASE: ""}


def missing(manager: str) -> str:
    """Say what the machine lacks for these tests."""
    lacking = [name for name in (*TOOLS, manager) if shutil.which(name) is None]
    if lacking:
        return f"needs {', '.join(lacking)}"
    return "" if os.geteuid() == 0 else "needs root"


def _build(
    work: Path, parts: dict[str, str], version: str, release: str, epoch: int, script: str = ""
) -> None:
    work.mkdir(exist_ok=True)
    spec = work / "test.spec"
    text = SPEC.format(epoch=epoch, version=version, release=release)
    full = f"{epoch}:{version}-{release}" if epoch else f"{version}-{release}"
    for name, relations in parts.items():
        text += PART.format(name=name, relations=relations.format(version=full))
    spec.write_text(text + script)
    words = ["rpmbuild", "-bb", "--define", f"_topdir {work}", "--define", f"_rpmdir {work}/repo"]
    words += ["--define", "_binary_payload w0.gzdio", str(spec)]
    subprocess.run(words, check=True, capture_output=True, text=True)


def repository(work: Path, key: Key | None = None) -> Path:
    """Build the packages, signed or not, and their index."""
    _build(work, RHEL, VERSION, "1.el9", 3)
    _build(work, SUSE, VERSION, "1.1", 0)
    _build(work, SUSE_MODULES, f"{VERSION}_k6.4.0_150600.21", "1.1", 0)
    _build(work, OTHERS, "3.0", "1", 0)
    if key is not None:
        key.sign_rpms(work / "repo")
    return _indexed(work)


def _indexed(work: Path) -> Path:
    words = ["createrepo_c", "--quiet", f"{work}/repo"]
    subprocess.run(words, check=True, capture_output=True, text=True)
    return work / "repo"


class RpmNode(FakeHost):
    """A node in a folder: its package manager is genuine, all else is not."""

    paths: tuple[str, ...] = PLACE.paths
    key_path = PLACE.rpm_key

    def __init__(self, root: Path, repo: Path, os_release: str) -> None:
        super().__init__(
            {
                "/etc/os-release": os_release,
                "/proc/sys/kernel/osrelease": "6.4.0\n",
                "/lib/modules/6.4.0/build": "",
                f"{GPU}/vendor": "0x10de\n",
                f"{GPU}/device": "0x2330\n",
                f"{GPU}/class": "0x030200\n",
            }
        )
        self.root = root
        self.local = Host()
        self.enabled = False
        (root / "etc/dnf/plugins").mkdir(parents=True)
        (root / "etc/yum.repos.d").mkdir()
        (root / "etc/zypp/repos.d").mkdir(parents=True)
        plugin = root / "etc/dnf/plugins/versionlock.conf"
        plugin.write_text(f"[main]\nenabled = 1\nlocklist = {root}{DNF_LOCKS}\n")
        (root / DNF_LOCKS[1:]).write_text("")
        (root / "etc/dnf/dnf.conf").write_text("[main]\ngpgcheck=0\n")
        entry = f"[test]\nname=test\nbaseurl=file://{repo}\nenabled=1\ngpgcheck=0\nautorefresh=0\n"
        (root / "etc/yum.repos.d/test.repo").write_text(entry)
        (root / "etc/zypp/repos.d/test.repo").write_text(entry)
        self.commands = {
            ("systemctl", "show"): self._show,
            ("systemctl", "enable"): self._switch,
            ("systemctl", "disable"): self._switch,
            ("modprobe",): self._modprobe,
            **{(name,): self._genuine for name in ("rpm", "dnf", "zypper")},
            ("gpgv",): lambda words: self.local.run(words, check=False),
        }
        done = self._genuine(("rpm", "--install", str(next(repo.glob(f"*/{BASE}-*.rpm")))))
        assert done.rc == 0, done.err

    def _genuine(self, words: tuple[str, ...]) -> Completed:
        env = {key: f"{self.root}{path}" for key, path in self.env.items()}
        return self.local.run(self.in_folder(words), check=False, stdin=self.stdin, env=env)

    def in_folder(self, words: tuple[str, ...]) -> list[str]:
        """Return the words that make a command work in the node's folder."""
        root = str(self.root)
        options = {
            "rpm": [f"--root={root}"],
            "dnf": [
                f"--installroot={root}",
                f"--config={root}/etc/dnf/dnf.conf",
                f"--setopt=reposdir={root}/etc/yum.repos.d",
                f"--setopt=pluginconfpath={root}/etc/dnf/plugins",
                f"--setopt=cachedir={root}/cache",
                "--setopt=module_platform_id=platform:el9",
                "--releasever=9",
            ],
            "zypper": [f"--root={root}"],
        }
        # Also in an address: file://KEY.
        rest = [
            re.sub(f"(^|//){re.escape(self.key_path)}$", rf"\1{root}{self.key_path}", word)
            for word in words[1:]
        ]
        return [words[0], *options[words[0]], *rest]

    def add(self, repo: Path) -> None:
        """Let the node know one more repository."""
        entry = f"[more]\nname=more\nbaseurl=file://{repo}\nenabled=1\ngpgcheck=0\nautorefresh=0\n"
        for folder in ("etc/yum.repos.d", "etc/zypp/repos.d"):
            (self.root / folder / "more.repo").write_text(entry)

    stdin: str | None = None
    env: Mapping[str, str] = {}

    def run(self, argv, *, stdin=None, env=None, **values):  # type: ignore[no-untyped-def]
        self.stdin, self.env = stdin, env or {}
        return super().run(argv, stdin=stdin, **values)

    def read(self, path: str) -> str | None:
        if path in (DNF_LOCKS, ZYPPER_LOCKS, STREAM_FILE):
            return self.local.read(f"{self.root}{path}")
        if path in self.paths:
            text = self.local.read(f"{self.root}{path}")
            return text and text.replace(
                f"file://{self.root}{self.key_path}", f"file://{self.key_path}"
            )
        return super().read(path)

    def exists(self, path: str) -> bool:
        return self.read(path) is not None if path in self.paths else super().exists(path)

    def write(self, path: str, text: str, **values):  # type: ignore[no-untyped-def]
        if path not in self.paths and not path.startswith(ZYPPER_PRIVATE):
            return super().write(path, text, **values)
        text = text.replace(f"file://{self.key_path}", f"file://{self.root}{self.key_path}")
        return self.local.write(f"{self.root}{path}", text, **values)

    def remove(self, path: str) -> bool:
        if path not in self.paths and not path.startswith(ZYPPER_PRIVATE):
            return super().remove(path)
        return self.local.remove(f"{self.root}{path}")

    def lock_holder(self, path: str) -> int | None:
        return self.local.lock_holder(f"{self.root}{path}")

    def installed(self) -> dict[str, str]:
        """Return what rpm has, by name."""
        done = self._genuine(("rpm", "-qa", "--qf", "%{NAME} %{VERSION}\\n"))
        found = dict(line.split() for line in done.out.split("\n") if line)
        return {
            name: version for name, version in found.items() if name not in (BASE, "gpg-pubkey")
        }

    def _show(self, _words: tuple[str, ...]) -> Completed:
        states = "ActiveState=active\nUnitFileState=enabled\n"
        return Completed(0, states if self.enabled else "ActiveState=inactive\n", "")

    def _switch(self, words: tuple[str, ...]) -> Completed:
        self.enabled = words[1] == "enable"
        return Completed(0, "", "")

    def _modprobe(self, _words: tuple[str, ...]) -> Completed:
        there = self.installed()
        version = next(there[name] for name in there if "kmod" in name or "kmp" in name)
        self.files[DRIVER] = LOADED.format(version.split("_k")[0])
        self.files[f"/lib/firmware/nvidia/{version.split('_k')[0]}/gsp_ga10x.bin"] = ""
        return Completed(0, "", "")
