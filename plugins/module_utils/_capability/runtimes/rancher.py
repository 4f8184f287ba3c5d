# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The containerd of k3s and of RKE2: settings of ours go to the folder that the generated file imports."""

from __future__ import annotations

import typing as t

from ..._core.runtimes import containerd, rancher
from ..._core.runtimes.common import View, Wanted
from ..._host import toml
from ..._host.api import Host
from ..._host.systemd import properties
from .containerd import Containerd


class Rancher(Containerd):
    """A containerd that k3s or RKE2 runs."""

    def __init__(self, host: Host, distribution: rancher.Distribution) -> None:
        self.name, self.program = distribution.name, distribution.containerd
        self.config_path = distribution.config_path
        self._distribution = distribution
        super().__init__(host)

    def view(self, path: str, wanted: Wanted) -> View:
        if self._host.read(path) is None:
            raise rancher.not_started(self._distribution)
        names = self._distribution.units
        states = {name: properties(self._host, name, "LoadState", "ActiveState") for name in names}
        self.unit = rancher.choose_unit(self._distribution, states) or names[0]
        return super().view(path, wanted)

    def _check_owner(self, text: str, path: str, view: View) -> None:
        form = containerd.format_version(toml.parse(text, path), view.version)
        raise rancher.not_settable(self._distribution, view.version, form, view.changes())

    def left_out(self, others: t.Container[str]) -> bool:
        return False


def k3s(host: Host) -> Rancher:
    """Return k3s' containerd."""
    return Rancher(host, rancher.K3S)


def rke2(host: Host) -> Rancher:
    """Return RKE2's containerd."""
    return Rancher(host, rancher.RKE2)
