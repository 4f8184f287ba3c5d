# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Docker, CRI-O and podman, and which runtimes are on a node."""

from __future__ import annotations

import typing as t

from ..._core.errors import NodeError
from ..._core.runtimes import engines
from ..._core.runtimes.common import Version, View, Wanted, has_cdi
from ..._host.api import Host
from .containerd import Containerd, K3s, Rke2
from .runtime import Runtime


class Docker(Runtime):
    """Docker's daemon."""

    kind = engines.DOCKER

    def _effective(self, path: str, version: Version) -> t.Mapping[str, t.Any]:
        return engines.docker(self.parse(self._host.read(path) or "", path), version)

    def check(self, path: str, text: str) -> None:
        if self._version() >= engines.DOCKER_CHECKS:
            with self._trial(f"{path}.gpu-node-trial", text) as trial:
                self._host.run([self.kind.program, "--validate", "--config-file", trial])


class Crio(Runtime):
    """CRI-O, which reads and merges a folder of drop-in files."""

    kind = engines.CRIO

    def _effective(self, path: str, version: Version) -> t.Mapping[str, t.Any]:
        self.parse(self._host.read(path) or "", path)
        shown = self._host.run([self.kind.program, "config"]).out
        return engines.crio(self.parse(shown, "crio config"))

    def check(self, path: str, text: str) -> None:
        # CRI-O reads all files of its folder, whatever their names.
        with self._trial("/run/gpu-node/crio-trial.conf", text) as trial:
            self._host.run([self.kind.program, "--config", trial, "config"])


class Podman(Runtime):
    """podman, which has no daemon and reads CDI specifications by itself."""

    kind = engines.PODMAN

    def view(self, path: str, wanted: Wanted) -> View:
        warnings = engines.podman(wanted)
        version = self._version()
        has_cdi(self.kind, version, wanted)
        return View(version, warnings=warnings)


KINDS: t.Tuple[t.Type[Runtime], ...] = (Containerd, Docker, Crio, Podman, K3s, Rke2)
NAMES = tuple(one.kind.name for one in KINDS)


def choose(host: Host, name: str) -> t.List[Runtime]:
    """Return the runtime of a name, or with auto all that are in use on the node."""
    found = [make(host) for make in KINDS if name in ("auto", make.kind.name)]
    there = [one for one in found if host.which(one.kind.program) is not None]
    if not there:
        raise NodeError(
            "no container runtime is installed"
            if name == "auto"
            else f"{found[0].kind.name} is not installed",
            hint="install it, as for any Kubernetes node",
        )
    if name == "auto":
        names = {one.kind.name for one in there}
        there = [one for one in there if not one.left_out(names)]
    return there
