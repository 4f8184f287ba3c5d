# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""containerd, also that of k3s and RKE2: how its files are read, checked and understood."""

from __future__ import annotations

import contextlib
import typing as t

from ..._core.runtimes import containerd, rancher
from ..._core.runtimes.common import View, Wanted, about_default, has_cdi, lookup
from ..._core.runtimes.edits import Config
from ..._host.api import Host
from ..._host.systemd import properties
from .runtime import Runtime


class Containerd(Runtime):
    """containerd, whose CRI plugin serves the kubelet."""

    kind = containerd.CONTAINERD

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._root = self.kind.config_path

    def view(self, path: str, wanted: Wanted) -> View:
        self._root = path
        version = self._version()
        cdi = has_cdi(self.kind, version, wanted)
        text = self._host.read(path) or ""
        config = self.parse(text, path)
        prefix = containerd.section(config, version)
        dump = self._dump(path if text else None)
        # The dump is in the newest format that this containerd knows, whatever the file is in.
        effective = lookup(dump, containerd.section(dump, version)) or {}
        extra = containerd.drop_in(config, version)
        warnings = about_default(lookup(effective, self.kind.default), wanted)
        if "cri" in config.get("disabled_plugins", ()):
            warnings += (f"{path} disables the CRI plugin, which the kubelet needs",)
        view = View(
            version,
            (extra, path) if extra else (path,),
            f"version = {containerd.format_version(config, version)}\n",
            prefix,
            containerd.lasting(effective, lookup(config, prefix), wanted, version),
            tuple(containerd.settings(effective, wanted, cdi)),
            warnings,
        )
        if wanted.mode and view.changes() and not extra:
            self._check_owner(text, path, view)
        return view

    def _check_owner(self, text: str, path: str, _view: View) -> None:
        """Refuse to edit a file that something else regenerates."""
        containerd.check_owner(text, path)

    def _dump(self, path: t.Optional[str]) -> Config:
        """Return what containerd makes of a file and its imports."""
        argv = [self.kind.program, *(["--config", path] if path else []), "config", "dump"]
        return self.parse(self._host.run(argv).out, "containerd config dump")

    def check(self, path: str, text: str) -> None:
        with contextlib.ExitStack() as stack:
            root = stack.enter_context(self._trial(f"{path}.gpu-node-trial", text))
            if path != self._root:
                # The name of the trial is not imported by itself.
                main = self._host.read(self._root) or ""
                imports = self.parse(main, self._root).get("imports", [])
                main = self.edit(main, [(("imports",), [*imports, root])])
                root = stack.enter_context(self._trial(f"{self._root}.gpu-node-trial", main))
            self._dump(root)

    def left_out(self, others: t.Container[str]) -> bool:
        config = self.parse(self._host.read(self._root) or "", self._root)
        return "docker" in others and "cri" in config.get("disabled_plugins", ())


class K3s(Containerd):
    """The containerd of k3s: settings go to the folder that its generated file imports."""

    kind = rancher.K3S

    def view(self, path: str, wanted: Wanted) -> View:
        if self._host.read(path) is None:
            raise rancher.not_started(self.kind)
        states = {
            unit: properties(self._host, unit, "LoadState", "ActiveState")
            for unit in self.kind.units
        }
        self.unit = rancher.choose_unit(self.kind, states) or self.unit
        return super().view(path, wanted)

    def _check_owner(self, text: str, path: str, view: View) -> None:
        form = containerd.format_version(self.parse(text, path), view.version)
        raise rancher.not_settable(self.kind, view.version, form, view.changes())

    def left_out(self, others: t.Container[str]) -> bool:
        return False


class Rke2(K3s):
    """The containerd of RKE2."""

    kind = rancher.RKE2
