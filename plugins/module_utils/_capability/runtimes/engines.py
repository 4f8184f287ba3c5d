# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container runtimes on a node: how their files are read, checked and understood."""

from __future__ import annotations

import contextlib
import posixpath
import typing as t

from ..._core.errors import NodeError
from ..._core.runtimes import common, containerd, json_text
from ..._core.runtimes.common import Version, View, Wanted, about_default, has_cdi, version_text
from ..._core.runtimes.edits import Change, Config, Removal, lookup
from ..._host import toml
from ..._host.api import Host, properties


class Runtime:
    """One container runtime of a ``kind``; ``unit`` is the one that runs it."""

    kind: common.Kind

    def __init__(self, host: Host) -> None:
        self._host = host
        self.unit = self.kind.units[0] if self.kind.units else ""

    def view(self, path: str, wanted: Wanted) -> View:
        """Read version and configuration, and compute what it must have."""
        kind, version = self.kind, self._version()
        cdi = has_cdi(kind, version, wanted)
        effective = self._effective(path, version)
        return View(
            version,
            (path,),
            prefix=kind.prefix,
            effective=effective,
            settings=tuple(kind.settings(effective, wanted, cdi)),
            warnings=about_default(lookup(effective, kind.default), wanted),
        )

    def _effective(self, path: str, version: Version) -> t.Mapping[str, t.Any]:
        """Return what the runtime makes of its files."""
        raise NotImplementedError

    def check(self, path: str, text: str) -> None:
        """Have the runtime check what would become of a file; NodeError when it is refused."""

    def left_out(self, others: t.Container[str]) -> bool:
        """Tell whether nothing on this node uses it, given the other runtimes that are there."""
        return False

    def parse(self, text: str, path: str) -> Config:
        """Return the content of a file."""
        return toml.parse(text, path) if self.kind.toml else json_text.parse(text, path)

    def edit(
        self, text: str, changes: t.Sequence[Change], removals: t.Sequence[Removal] = ()
    ) -> str:
        """Return the text of a file after an edit."""
        return (toml.edit if self.kind.toml else json_text.edit)(text, changes, removals)

    def _version(self) -> Version:
        return common.parse_version(
            self._host.run([self.kind.program, "--version"]).out, self.kind.name
        )

    @contextlib.contextmanager
    def _trial(self, path: str, text: str) -> t.Iterator[str]:
        """Have a text in a file for the time of a with statement."""
        self._host.write(path, text, mode=0o600)
        try:
            yield path
        finally:
            self._host.remove(path)


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

    kind = containerd.K3S

    def view(self, path: str, wanted: Wanted) -> View:
        if self._host.read(path) is None:
            raise NodeError(
                f"{self.kind.config_path} is not there yet",
                cause=f"{self.kind.name} writes it when it starts",
                hint=f"start {' or '.join(self.kind.units)}, then run again",
            )
        names = ("LoadState", "ActiveState")
        states = {unit: properties(self._host, unit, *names) for unit in self.kind.units}
        self.unit = containerd.choose_unit(self.kind, states) or self.unit
        return super().view(path, wanted)

    def _check_owner(self, text: str, path: str, view: View) -> None:
        form = containerd.format_version(self.parse(text, path), view.version)
        name, folder = self.kind.name, posixpath.dirname(self.kind.config_path)
        base = "config.toml" if form == 2 else "config-v3.toml"
        raise NodeError(
            f"{name} needs {common.describe(view.changes())}, and {self.kind.config_path} is regenerated "
            "at each of its starts",
            cause=f"a drop-in file takes containerd {version_text(containerd.MERGES)} or later "
            f"(this is {version_text(view.version)}) and "
            f'a file that imports "{folder}/{base}.d/*.toml"',
            hint=f"upgrade {name}, or write {folder}/{base}.tmpl with these settings in it and "
            f"restart {name}",
        )

    def left_out(self, others: t.Container[str]) -> bool:
        return False


class Rke2(K3s):
    """The containerd of RKE2."""

    kind = containerd.RKE2


class Docker(Runtime):
    """Docker's daemon."""

    kind = common.DOCKER

    def _effective(self, path: str, version: Version) -> t.Mapping[str, t.Any]:
        return common.docker(self.parse(self._host.read(path) or "", path), version)

    def check(self, path: str, text: str) -> None:
        if self._version() >= common.DOCKER_CHECKS:
            with self._trial(f"{path}.gpu-node-trial", text) as trial:
                self._host.run([self.kind.program, "--validate", "--config-file", trial])


class Crio(Runtime):
    """CRI-O, which reads and merges a folder of drop-in files."""

    kind = common.CRIO

    def _effective(self, path: str, version: Version) -> t.Mapping[str, t.Any]:
        self.parse(self._host.read(path) or "", path)
        shown = self._host.run([self.kind.program, "config"]).out
        return common.crio(self.parse(shown, "crio config"))

    def check(self, path: str, text: str) -> None:
        # CRI-O reads all files of its folder, whatever their names.
        with self._trial("/run/gpu-node/crio-trial.conf", text) as trial:
            self._host.run([self.kind.program, "--config", trial, "config"])


class Podman(Runtime):
    """podman, which has no daemon and reads CDI specifications by itself."""

    kind = common.PODMAN

    def view(self, path: str, wanted: Wanted) -> View:
        warnings = common.podman(wanted)
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
