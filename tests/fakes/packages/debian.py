# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A Debian node of dictionaries whose apt and dpkg are genuine, for what is not theirs: processes, services, pods,
kernels, and answers of apt that a genuine one cannot be made to give.
"""

from __future__ import annotations

import functools
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import OWN_PREFERENCES

from tests.fakes.library.fakes import DRIVER, GPU, LOADED, TRIXIE, FakeHost
from tests.fakes.packages.apt_nodes import BASE, FOLDERS, GENUINE, in_folder, missing
from tests.fakes.packages.driver_runs import capability, converge, reported
from tests.fakes.played import memory
from tests.fakes.played.debs import Deb, Mirror

__all__ = ["DRIVER", "GPU", "LOADED", "Debian", "capability", "converge", "converged", "reported"]

VERSION = "550.163.01-2"
LOCKED = Completed(100, "", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by 7")
GPUS = tuple(f"GPU-{at}0000000-0000-0000-0000-000000000000" for at in "12")
NAMES = ("libcuda1", "libnvidia-ml1", "nvidia-cuda-mps", "nvidia-persistenced", "nvidia-smi")
NAMES += ("libnvidia-cfg1", "firmware-nvidia-gsp", "nvidia-open-kernel-dkms", "nvidia-kernel-dkms")
PARTS = ("main", "contrib", "non-free", "non-free-firmware")


class Debian(FakeHost):
    """A trixie node with an H100, and a mirror of packages without content.

    ``offers`` are the versions that the mirror has, by package; it follows with the next ``apt-get update``.
    ``answers`` are replayed by the next calls of apt-get that take a lock; None lets one through.
    """

    def __init__(self) -> None:
        if lacking := missing(GENUINE):
            pytest.skip(lacking)
        super().__init__(TRIXIE)
        self._temporary = tempfile.TemporaryDirectory(dir=memory.shared("nodes"))
        self.folder, self.mirror = (Path(self._temporary.name) / one for one in ("node", "mirror"))
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True)
        (self.folder / "var/lib/dpkg/available").write_text("")
        (self.folder / "var/lib/dpkg/status").write_text(BASE)
        self.local = Host()
        self.offers = {name: [VERSION, "535.261.03-1"] for name in NAMES} | {"dkms": ["3.2-1"]}
        self.answers: list[Completed | None] = []  # type: ignore[assignment]
        self.enabled = False
        self.modes = dict.fromkeys(GPUS, True)  # persistence modes, by UUID
        self.starts_with = ""  # options of the persistence daemon
        self.commands = {
            **{(name,): self._genuine for name in GENUINE},
            ("apt-get",): self._apt_get,
            ("modprobe",): self._modprobe,
            ("nvidia-smi",): self._nvidia_smi,
            ("rmmod",): self._rmmod,
            ("systemctl", "is-active"): "active\n",
            ("systemctl", "stop"): "",
            ("systemctl", "start"): "",
            ("systemctl", "show"): self._show,
            ("systemctl", "enable"): self._enable,
            ("systemctl", "disable"): self._enable,
        }

    # --- what a person does ---

    def update(self) -> None:
        """Let the node's lists follow the mirror."""
        done = self._genuine(("apt-get", "-q", "update"))
        assert done.rc == 0, done.err

    def copy_of(self, other: Debian) -> None:
        """Become another node, with a mirror of its own once that is to change."""
        shutil.rmtree(self.folder)
        shutil.copytree(other.folder, self.folder, symlinks=True)
        self.mirror, self.enabled = other.mirror, other.enabled
        self.files, self.links = dict(other.files), dict(other.links)

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

    # --- its commands ---

    def _apt_get(self, words: tuple[str, ...]) -> Completed:
        locks = not {"--simulate", "indextargets"}.intersection(words)
        answer = self.answers.pop(0) if self.answers and locks else None
        done = self._genuine(words) if answer is None else answer
        if "purge" in words and "firmware-nvidia-gsp" not in self.packages:
            self.remove("/lib/firmware/nvidia")
        return done

    def _genuine(self, words: tuple[str, ...]) -> Completed:
        if words[-1] == "update":
            self._publish()
        self._write()
        options = in_folder(words[0], self.folder)
        own = f"{self.folder}{OWN_PREFERENCES}"
        moved = [one.replace(OWN_PREFERENCES, own) for one in words[1:]]
        done = self.local.run([words[0], *options, *moved], check=False)
        return Completed(done.rc, *(one.replace(str(self.folder), "") for one in done[1:]))

    def _write(self) -> None:
        """Write what apt reads."""
        ours = ("/etc/apt/", OWN_PREFERENCES)
        wanted = {path: text for path, text in self.files.items() if path.startswith(ours)}
        for there in (self.folder / "etc/apt").rglob("*"):
            if there.is_file() and f"/{there.relative_to(self.folder)}" not in wanted:
                there.unlink()
        for path, text in wanted.items():
            real = re.sub(r"http://mirror/\w+", f"file:{self.mirror}", text)
            (self.folder / path[1:]).write_text(real)

    def _publish(self) -> None:
        """Write the mirror anew."""
        self.mirror = Path(self._temporary.name) / "mirror"
        mirror = Mirror(self.mirror, "trixie", origin="Debian", parts=PARTS, suites=("",))
        mirror.publish(
            Deb(
                name,
                one,
                (("Depends", "dkms" if "dkms" in name[1:] else ""),),
                "" if name == "dkms" else "nvidia-graphics-drivers",
                component="main" if name == "dkms" else "non-free",
                suite="trixie",
            )
            for name, versions in self.offers.items()
            for one in versions
        )

    def _modprobe(self, words: tuple[str, ...]) -> Completed:
        self.files[f"/sys/module/{words[1]}/version"] = ""
        if words[1] == "nvidia" and DRIVER not in self.files:
            kinds = ("nvidia-open-kernel-dkms", "nvidia-kernel-dkms")
            package = next(one for one in kinds if one in self.packages)
            version = self.packages[package][0].split("-")[0]
            text = LOADED if package == kinds[0] else LOADED.replace("Open ", "")
            self.files[DRIVER] = text.format(version)
            self.files[f"/lib/firmware/nvidia/{version}/gsp_ga10x.bin"] = ""
        return Completed(0, "", "")

    def _rmmod(self, words: tuple[str, ...]) -> Completed:
        for name in words[1:]:
            self.remove(f"/sys/module/{name}")
        self.remove(DRIVER)
        return Completed(0, "", "")

    def _show(self, _words: tuple[str, ...]) -> Completed:
        on = self.enabled and "nvidia-persistenced" in self.packages
        start = f"ExecStart={{ argv[]=/usr/bin/nvidia-persistenced {self.starts_with} ; }}\n"
        states = f"ActiveState=active\nUnitFileState=enabled\n{start}"
        return Completed(0, states if on else "ActiveState=inactive\nUnitFileState=\n", "")

    def _nvidia_smi(self, words: tuple[str, ...]) -> Completed:
        if DRIVER not in self.files or "nvidia-smi" not in self.packages:
            return Completed(9, "", "NVIDIA-SMI has failed")
        if words[1] == "-pm":
            self.modes[words[4]] = words[2] == "1"
            return Completed(0, "", "")
        states = {True: "Enabled", False: "Disabled"}
        rows = [f"{uuid}, {at}, {states[on]}" for at, (uuid, on) in enumerate(self.modes.items())]
        return Completed(0, "\n".join(rows), "")

    def _enable(self, words: tuple[str, ...]) -> Completed:
        self.enabled = words[1] == "enable"
        return Completed(0, "", "")


@functools.lru_cache
def _template(kind: type[Debian]) -> Debian:
    node = kind()
    assert converge(node).steps == ()
    return node


def converged(kind: type[Debian] = Debian) -> Any:
    """Return a node with the driver, which was installed once for all tests."""
    node = kind()
    node.copy_of(_template(kind))
    return node
