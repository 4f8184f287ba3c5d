# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container runtimes: how each is found, read and made to check a file."""

from __future__ import annotations

import typing as t

from ..._core.errors import NodeError
from ..._core.runtimes import crio, docker, edits, podman
from ..._core.runtimes.common import View, Wanted, about_default, has_cdi, parse_version
from ..._core.text import json_text
from ..._host import toml
from ..._host.api import Host
from .containerd import Containerd
from .rancher import k3s, rke2


class Runtime(t.Protocol):
    """One container runtime."""

    name: str
    program: str
    unit: str
    config_path: str
    toml: bool

    def view(self, path: str, wanted: Wanted) -> View:
        """Read version and configuration, and compute what it must have."""

    def check(self, path: str, text: str) -> None:
        """Have the runtime check what would become of a file; NodeError when it is refused."""

    def left_out(self, others: t.Container[str]) -> bool:
        """Tell whether nothing on this node uses it, given the other runtimes that are there."""


class Docker:
    """Docker's daemon."""

    name = "docker"
    program = "dockerd"
    unit = "docker.service"
    config_path = "/etc/docker/daemon.json"
    toml = False

    def __init__(self, host: Host) -> None:
        self._host = host

    def view(self, path: str, wanted: Wanted) -> View:
        version = self._version()
        cdi = has_cdi(version, docker.MINIMUM, self.name, wanted)
        config = json_text.parse(self._host.read(path) or "", path)
        effective = docker.effective(config, version)
        return View(
            version,
            (path,),
            "",
            (),
            effective,
            tuple(docker.settings(effective, wanted, cdi)),
            about_default(effective.get("default-runtime"), wanted),
            docker.LIVE,
        )

    def _version(self) -> t.Tuple[int, ...]:
        return parse_version(self._host.run([self.program, "--version"]).out, self.name)

    def check(self, path: str, text: str) -> None:
        if self._version() < docker.CHECKS:
            return
        trial = f"{path}.gpu-node-trial"
        self._host.write(trial, text, mode=0o600)
        try:
            self._host.run([self.program, "--validate", "--config-file", trial])
        finally:
            self._host.remove(trial)

    def left_out(self, others: t.Container[str]) -> bool:
        return False


class Crio:
    """CRI-O, which reads and merges a folder of drop-in files."""

    name = "cri-o"
    program = "crio"
    unit = "crio.service"
    config_path = "/etc/crio/crio.conf.d/99-gpu-node.conf"
    toml = True

    def __init__(self, host: Host) -> None:
        self._host = host

    def view(self, path: str, wanted: Wanted) -> View:
        version = parse_version(self._host.run([self.program, "--version"]).out, self.name)
        cdi = has_cdi(version, crio.MINIMUM, self.name, wanted)
        toml.parse(self._host.read(path) or "", path)
        shown = self._host.run([self.program, "config"]).out
        effective = crio.effective(toml.parse(shown, "crio config"))
        return View(
            version,
            (path,),
            "",
            crio.SECTION,
            effective,
            tuple(crio.settings(effective, wanted, cdi)),
            about_default(effective.get("default_runtime"), wanted),
        )

    def check(self, path: str, text: str) -> None:
        # CRI-O reads all files of its folder, whatever their names.
        trial = f"/run/gpu-node/{self.program}-trial.conf"
        self._host.write(trial, text, mode=0o600)
        try:
            self._host.run([self.program, "--config", trial, "config"])
        finally:
            self._host.remove(trial)

    def left_out(self, others: t.Container[str]) -> bool:
        return False


class Podman:
    """podman, which has no daemon and reads CDI specifications by itself."""

    name = program = "podman"
    unit = ""
    config_path = ""
    toml = False

    def __init__(self, host: Host) -> None:
        self._host = host

    def view(self, path: str, wanted: Wanted) -> View:
        podman.check_mode(wanted)
        version = parse_version(self._host.run([self.program, "--version"]).out, self.name)
        has_cdi(version, podman.MINIMUM, self.name, wanted)
        return View(version, warnings=podman.warnings(wanted))

    def check(self, path: str, text: str) -> None:
        """There is no file."""

    def left_out(self, others: t.Container[str]) -> bool:
        return False


KINDS: t.Tuple[t.Callable[[Host], Runtime], ...] = (Containerd, Docker, Crio, Podman, k3s, rke2)
NAMES = ("containerd", "docker", "cri-o", "podman", "k3s", "rke2")


def parse(runtime: Runtime, text: str, path: str) -> edits.Config:
    """Return the content of a runtime's file."""
    return toml.parse(text, path) if runtime.toml else json_text.parse(text, path)


def edit(
    runtime: Runtime,
    text: str,
    changes: t.Sequence[t.Tuple[t.Tuple[str, ...], t.Any]],
    removals: t.Sequence[edits.Removal] = (),
) -> str:
    """Return the text of a runtime's file after an edit."""
    return (toml.edit if runtime.toml else json_text.edit)(text, changes, removals)


def choose(host: Host, name: str) -> t.List[Runtime]:
    """Return the runtime of a name, or with auto all that are in use on the node."""
    found = [one for one in (make(host) for make in KINDS) if name in ("auto", one.name)]
    there = [one for one in found if host.which(one.program) is not None]
    if not there:
        raise NodeError(
            "no container runtime is installed"
            if name == "auto"
            else f"{found[0].name} is not installed",
            hint="install it, as for any Kubernetes node",
        )
    if name == "auto":
        names = {one.name for one in there}
        there = [one for one in there if not one.left_out(names)]
    return there
