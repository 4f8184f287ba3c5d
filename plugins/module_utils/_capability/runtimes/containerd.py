# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""containerd: how its files are read, checked and understood."""

from __future__ import annotations

import typing as t

from ..._core.runtimes import containerd
from ..._core.runtimes.common import View, Wanted, about_default, has_cdi, lookup, parse_version
from ..._host import toml
from ..._host.api import Host


class Containerd:
    """containerd, whose CRI plugin serves the kubelet."""

    name: str = "containerd"
    program: str = "containerd"
    unit: str = "containerd.service"
    config_path: str = "/etc/containerd/config.toml"
    toml = True

    def __init__(self, host: Host) -> None:
        self._host = host
        self._root = self.config_path

    def view(self, path: str, wanted: Wanted) -> View:
        self._root = path
        version = parse_version(self._host.run([self.program, "--version"]).out, self.name)
        cdi = has_cdi(version, containerd.MINIMUM, self.name, wanted)
        text = self._host.read(path) or ""
        config = toml.parse(text, path)
        prefix = containerd.section(config, version)
        dump = self._dump(path if text else None)
        # The dump is in the newest format that this containerd knows, whatever the file is in.
        effective = lookup(dump, containerd.section(dump, version)) or {}
        settings = containerd.settings(effective, wanted, cdi)
        extra = containerd.drop_in(config, version)
        warnings = list(
            about_default(lookup(effective, ("containerd", "default_runtime_name")), wanted)
        )
        if "cri" in config.get("disabled_plugins", ()):
            warnings.append(f"{path} disables the CRI plugin, which the kubelet needs")
        view = View(
            version,
            (extra, path) if extra else (path,),
            f"version = {containerd.format_version(config, version)}\n",
            prefix,
            containerd.lasting(effective, lookup(config, prefix), wanted, version),
            tuple(settings),
            tuple(warnings),
        )
        if wanted.mode and view.changes() and not extra:
            self._check_owner(text, path, view)
        return view

    def _check_owner(self, text: str, path: str, _view: View) -> None:
        """Refuse to edit a file that something else writes anew."""
        containerd.check_owner(text, path)

    def _dump(self, path: t.Optional[str]) -> t.Dict[str, t.Any]:
        """Return what containerd makes of a file and its imports."""
        words = [self.program, *(["--config", path] if path else []), "config", "dump"]
        return toml.parse(self._host.run(words).out, "containerd config dump")

    def check(self, path: str, text: str) -> None:
        trial = f"{path}.gpu-node-trial"
        root = trial
        self._host.write(trial, text, mode=0o600)
        try:
            if path != self._root:
                # The name of the trial is not imported by itself.
                root = f"{self._root}.gpu-node-trial"
                main = self._host.read(self._root) or ""
                imports = toml.parse(main, self._root).get("imports", [])
                main = toml.edit(main, [(("imports",), [*imports, trial])])
                self._host.write(root, main, mode=0o600)
            self._dump(root)
        finally:
            self._host.remove(trial)
            self._host.remove(root)

    def left_out(self, others: t.Container[str]) -> bool:
        config = toml.parse(self._host.read(self.config_path) or "", self.config_path)
        return "docker" in others and "cri" in config.get("disabled_plugins", ())
