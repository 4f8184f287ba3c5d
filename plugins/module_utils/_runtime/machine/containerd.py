# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""containerd on a node, also that of k3s and RKE2: how its files are read, tried and understood."""

from __future__ import annotations

import contextlib
import fnmatch
import posixpath
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host, properties
from .. import containerd
from ..edits import Change, Config, lookup
from ..state import Unfit, Version, View, Wanted, about_default, describe, has_cdi, version_text
from .engine import Runtime, Texts, trial_folder
from .start_commands import StartCommands


class Containerd(Runtime):
    """containerd, whose CRI plugin serves the kubelet."""

    kind = containerd.CONTAINERD

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._configs: t.Dict[str, Config] = {}  # of the files that it reads, by their paths

    def view(self, path: str, wanted: Wanted) -> View:
        version = self._version()
        cdi = has_cdi(self.kind, version, wanted)
        text = self._host.read(path)
        config = self.parse(text or "", path)
        dump = self._dump(path, version)
        self._configs = self._read_all(path, config)
        loaded = tuple(containerd.in_order(path, self._configs)) if text is not None else ()
        extra = containerd.drop_in(config, version)
        fresh = f"version = {containerd.format_version(config, version)}\n"
        if not wanted.mode:
            return View(version, extra or path, fresh, effective=dump, loaded=loaded)
        if containerd.disables_cri(dump):
            raise Unfit(
                f"{path}, or a file that it imports, disables the CRI plugin, which the kubelet needs",
                hint="remove the plugin from disabled_plugins there, or name the runtime that is used: docker",
            )
        prefix = containerd.section(config, version)
        effective = self._section(dump, version)
        file = extra or self._counting(path, version, loaded)
        named = lookup(self._configs.get(file, config), prefix)
        default = lookup(config, (*prefix, *self.kind.default))
        wanted = wanted._replace(instead=wanted.instead or str(default or ""))
        view = View(
            version,
            file,
            fresh,
            prefix,
            containerd.lasting(effective, named, wanted, version),
            tuple(containerd.settings(effective, wanted, cdi)),
            (
                *about_default(lookup(effective, self.kind.default), wanted),
                *containerd.lost(effective, self._host.exists, wanted),
            ),
            loaded,
        )
        if view.changes() and not extra:
            self._check_owner(file, view)
        return view

    def _section(self, dump: Config, version: Version) -> t.Mapping[str, t.Any]:
        """Return the CRI plugin's section of a dump, which is in the newest format that this containerd knows."""
        return containerd.without_defaults(lookup(dump, containerd.section(dump, version)) or {})

    def _read_all(self, path: str, config: Config) -> t.Dict[str, Config]:
        """Return what is in each file that containerd reads, by its path."""
        found, pending = {path: config}, [path]
        while pending:
            name = pending.pop()
            for pattern in containerd.patterns(found[name], name):
                for one in self._glob(pattern):
                    if one not in found:
                        found[one] = {}
                        with contextlib.suppress(NodeError):  # containerd has read it, which counts
                            found[one] = self.parse(self._host.read(one) or "", one)
                        pending.append(one)
        return found

    def _glob(self, pattern: str) -> t.List[str]:
        found = [""]
        for part in pattern.split("/")[1:]:
            if "*" in pattern and any(one in part for one in "*?["):
                places = [(one, self._host.listdir(one or "/")) for one in found]
                found = [
                    f"{at}/{name}" for at, names in places for name in fnmatch.filter(names, part)
                ]
            else:
                found = [f"{folder}/{part}" for folder in found]
        return [one for one in found if self._host.exists(one)]

    def _counting(self, path: str, version: Version, loaded: t.Sequence[str]) -> str:
        """Return the file whose section is in effect: before files are merged, the last one that has one."""
        if version >= containerd.MERGES:
            return path
        section = containerd.section(self._configs[path], version)
        having = [one for one in loaded if lookup(self._configs[one], section) is not None]
        return having[-1] if having else path

    def _check_owner(self, path: str, _view: View) -> None:
        containerd.check_owner(self._host.read(path) or "", path)

    def _dump(self, path: str, version: Version) -> Config:
        """Return what containerd makes of a file and its imports, or of none."""
        if self._host.read(path) is not None:
            args = ["--config", path, *self.kind.trial_args(self.commands().running)]
            args += ["config", "dump"]
        else:  # before 2, it dumps nothing without a file
            usual = version >= (2,) and path == self.kind.config_path
            args = ["config", "dump" if usual else "default"]
        out = self._host.run([self.kind.program, *args]).out
        return self.parse(out, "containerd config dump")

    def trial(self, view: View, path: str, texts: Texts) -> t.Mapping[str, t.Any]:
        folder = trial_folder()
        main = texts[path] if path in texts else self._host.read(path)
        if main is None:
            return self._section(self._dump(f"{folder}/none", view.version), view.version)
        others = {one: text for one, text in texts.items() if one != path}
        there = {*view.loaded, *(one for one, text in others.items() if text is not None)}
        gone = {one for one, text in others.items() if text is None}
        tried = {one: f"{folder}/{at}-{posixpath.basename(one)}" for at, one in enumerate(others)}
        config = self.parse(main, path)
        found = [one for one in containerd.imported(config, path, there) if one not in gone]
        if found:
            listed = [tried.get(one, one) for one in found]
            main = self.edit(main, [(("imports",), listed)])
        files = {f"{folder}/config.toml": main}
        files.update({tried[one]: text for one, text in others.items() if text is not None})
        tried[path] = f"{folder}/config.toml"
        with self._trial(folder, files, tried):
            dump = self._dump(f"{folder}/config.toml", view.version)
        return self._section(dump, view.version)

    def setting_file(self, view: View, lacking: t.Sequence[Change]) -> str:
        for one in reversed(view.loaded):
            config = self._configs[one]
            if one != view.file and any(
                lookup(config, ("plugins", section, *path)) is not None
                for section in containerd.CRI_SECTION.values()
                for path, _value in lacking
            ):
                return one
        return ""

    def left_out(self, others: t.Container[str]) -> bool:
        if "docker" not in others:
            return False
        try:
            return containerd.disables_cri(self._dump(self.path(), self._version()))
        except NodeError:  # it is told of where the file is read
            return False


class K3s(Containerd):
    """The containerd of k3s: settings go to the folder that its generated file imports."""

    kind = containerd.K3S

    def view(self, path: str, wanted: Wanted) -> View:
        if self._host.read(path) is None:
            what = f"{self.kind.config_path} is not there yet"
            hint = f"start {' or '.join(self.kind.units)}, then run again"
            raise NodeError(what, cause=f"{self.kind.name} writes it when it starts", hint=hint)
        self.commands()
        return super().view(path, wanted)

    def commands(self) -> StartCommands:
        if not self._commands:
            names = ("LoadState", "ActiveState")
            states = {unit: properties(self._host, unit, *names) for unit in self.kind.units}
            self.unit = containerd.choose_unit(self.kind, states) or self.unit
        return super().commands()

    def reads(self, view: View, path: str) -> t.Tuple[str, ...]:
        return tuple(one for one in super().reads(view, path) if one != self.kind.config_path)

    def _check_owner(self, path: str, view: View) -> None:
        form = containerd.format_version(self._configs[path], view.version)
        name, folder = self.kind.name, posixpath.dirname(self.kind.config_path)
        base = "config.toml" if form == 2 else "config-v3.toml"
        raise NodeError(
            f"{name} needs {describe(view.changes())}, and {self.kind.config_path} is regenerated "
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
