# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""containerd on a node, also that of k3s and RKE2: how its files are read, tried and understood."""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import posixpath
import typing as t

from ..._base.errors import NodeError
from ..._base.text import json_data
from ..._machine.host import Host
from ..._machine.units import properties
from .. import containerd
from ..edits import Change, Config, apply, lookup
from ..state import RuntimeOptions, RuntimeView, Unfit, Version, describe, has_cdi, version_text
from . import cri_status
from .engine import Runtime, Texts, listed, trial_folder, would_lose
from .start_commands import StartCommands

PYTHON = "/opt/gpu-node/current/bin/python"  # which has grpc, on nodes with the device plugin
CRI_SECONDS = 20.0


class Containerd(Runtime):
    """containerd, whose CRI plugin serves the kubelet."""

    kind = containerd.CONTAINERD

    def default_program(self, effective: t.Mapping[str, t.Any]) -> t.Tuple[str, str]:
        name = str(lookup(effective, self.kind.keys.default) or "")
        path = ("containerd", "runtimes", name, "options", "BinaryName")
        return name, str(lookup(effective, path) or "")

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._configs: t.Dict[str, Config] = {}  # of the files that it reads, by their paths

    def view(self, path: str, options: RuntimeOptions) -> RuntimeView:
        version = self._version()
        cdi = has_cdi(self.kind, version, options)
        text = self._host.read(path)
        config = self.parse(text or "", path)
        dump = self._dump(path, version)
        self._configs = self._read_all(path, config)
        loaded = tuple(containerd.in_order(path, self._configs)) if text is not None else ()
        extra = self._drop_in(config, version)
        fresh = f"version = {containerd.format_version(config, version)}\n"
        if not options.mode:
            return RuntimeView(version, extra or path, fresh, effective=dump, loaded=loaded)
        if containerd.disables_cri(dump):
            raise Unfit(
                f"{path}, or a file that it imports, disables the CRI plugin, which the kubelet needs",
                hint="remove the plugin from disabled_plugins there, or name the runtime that is used: docker",
            )
        prefix = containerd.section(config, version)
        effective = self._section(dump, version)
        file = extra or self._counting(path, version, loaded)
        named = lookup(self._configs.get(file, config), prefix)
        default = lookup(config, (*prefix, *self.kind.keys.default))
        options = options._replace(instead=options.instead or str(default or ""))
        view = RuntimeView(
            version,
            file,
            fresh,
            prefix,
            containerd.lasting(effective, named, options, version),
            tuple(containerd.settings(effective, options, cdi)),
            (*self.about_program(effective, options),),
            loaded,
        )
        if view.changes() and not extra:
            self._check_owner(file, view)
        return view

    def _drop_in(self, config: Config, version: Version) -> t.Optional[str]:
        return containerd.drop_in(config, version)

    def _section(self, dump: Config, version: Version) -> t.Mapping[str, t.Any]:
        """Return the CRI plugin's section of a dump, which is in the newest format that this containerd knows."""
        return containerd.without_defaults(lookup(dump, containerd.section(dump, version)) or {})

    def _read_all(self, path: str, config: Config) -> t.Dict[str, Config]:
        """Return what is in each file that containerd reads, by its path."""
        configs, pending = {path: config}, [path]
        while pending:
            name = pending.pop()
            for pattern in containerd.patterns(configs[name], name):
                for file in self._glob(pattern):
                    if file not in configs:
                        configs[file] = {}
                        with contextlib.suppress(NodeError):  # containerd has read it, which counts
                            configs[file] = self.parse(self._host.read(file) or "", file)
                        pending.append(file)
        return configs

    def _glob(self, pattern: str) -> t.List[str]:
        paths = [""]
        for part in pattern.split("/")[1:]:
            if "*" in pattern and any(path in part for path in "*?["):
                folders = {path: self._host.listdir(path or "/") for path in paths}
                names = {path: fnmatch.filter(listing, part) for path, listing in folders.items()}
                paths = [f"{folder}/{name}" for folder in paths for name in names[folder]]
            else:
                paths = [f"{folder}/{part}" for folder in paths]
        return [path for path in paths if self._host.exists(path)]

    def _counting(self, path: str, version: Version, loaded: t.Sequence[str]) -> str:
        """Return the file whose section is in effect: before files are merged, the last one that has one."""
        if version >= containerd.MERGES:
            return path
        section = containerd.section(self._configs[path], version)
        having = [file for file in loaded if lookup(self._configs[file], section) is not None]
        return having[-1] if having else path

    def _check_owner(self, path: str, view: RuntimeView) -> None:
        for name in (path, *view.loaded[:1]):
            containerd.check_owner(self._host.read(name) or "", name)

    def _dump(self, path: str, version: Version) -> Config:
        """Return what containerd makes of a file and its imports, or of none."""
        if self._host.read(path) is not None:
            args = ["--config", path, *self.kind.start.trial_args(self.commands().running)]
            args += ["config", "dump"]
        else:  # before 2, it dumps nothing without a file
            usual = version >= (2,) and path == self.kind.config_path
            args = ["config", "dump" if usual else "default"]
        try:
            out = self._host.run([self.kind.program, *args]).out
        except NodeError as error:
            hint = containerd.next_step(error.cause, path)
            raise NodeError(f"containerd refuses {path}", cause=error.cause, hint=hint) from error
        return self.parse(out, "containerd config dump")

    def trial(self, view: RuntimeView, path: str, texts: Texts) -> t.Mapping[str, t.Any]:
        folder = trial_folder()
        main = texts[path] if path in texts else self._host.read(path)
        if main is None:
            return self._section(self._dump(f"{folder}/none", view.version), view.version)
        other_texts = {file: text for file, text in texts.items() if file != path}
        there = {*view.loaded, *(file for file, text in other_texts.items() if text is not None)}
        gone = {file for file, text in other_texts.items() if text is None}
        tried = {
            file: f"{folder}/{at}-{posixpath.basename(file)}" for at, file in enumerate(other_texts)
        }
        config = self.parse(main, path)
        imports = [file for file in containerd.imported(config, path, there) if file not in gone]
        if imports:
            listed = [tried.get(file, file) for file in imports]
            main = self.edit(main, [(("imports",), listed)])
        files = {f"{folder}/config.toml": main}
        files.update({tried[file]: text for file, text in other_texts.items() if text is not None})
        tried[path] = f"{folder}/config.toml"
        with self._trial(folder, files, tried):
            dump = self._dump(f"{folder}/config.toml", view.version)
        return self._section(dump, view.version)

    def running(self, path: str) -> t.Optional[t.Mapping[str, t.Any]]:
        try:
            return containerd.cri_settings(json_data.loads(self._ask()))
        except json_data.MISREAD:
            return None

    def check_running(self, view: RuntimeView, after: t.Mapping[str, t.Any]) -> None:
        at = ("containerd", "runtimes")
        # Without a mode, a view has all of the configuration.
        before = view.effective if view.prefix else self._section({**view.effective}, view.version)
        there, stays = (lookup(config, at) or {} for config in (before, after))
        gone = there.keys() - stays.keys()
        names = containerd.pods_of(self._ask("pods"), gone) if gone else ()
        if names:
            raise would_lose(
                f"{self.kind.name} could not start a container again in {listed(names)}",
                f"these pods are of the handler {', '.join(sorted(gone))}, which would be gone",
                "end them, then run again",
            )

    def _ask(self, *args: str) -> str:
        argv = [PYTHON, "-c", inspect.getsource(cri_status), self.socket(), *args]
        return self._host.run(argv, check=False, timeout=CRI_SECONDS).out

    def setting_file(self, view: RuntimeView, lacking: t.Sequence[Change]) -> str:
        for file in reversed(view.loaded):
            config = self._configs[file]
            if file != view.file and any(
                lookup(config, ("plugins", section, *path)) is not None
                for section in containerd.CRI_SECTION.values()
                for path, _value in lacking
            ):
                return file
        return ""

    def left_out(self, names: t.Container[str]) -> bool:
        if "docker" not in names:
            return False
        try:
            return containerd.disables_cri(self._dump(self.path(), self._version()))
        except NodeError:  # it is told of where the file is read
            return False


class K3s(Containerd):
    """The containerd of k3s: settings go to the folder that its generated file imports."""

    kind = containerd.K3S

    def view(self, path: str, options: RuntimeOptions) -> RuntimeView:
        if self._host.read(path) is None:
            message = f"{self.kind.config_path} is not there yet"
            hint = f"start {' or '.join(self.kind.units)}, then run again"
            raise NodeError(message, cause=f"{self.kind.name} writes it when it starts", hint=hint)
        self.commands()
        return super().view(path, options)

    def commands(self) -> StartCommands:
        if not self._commands:
            names = ("LoadState", "ActiveState")
            states = {unit: properties(self._host, unit, *names) for unit in self.kind.units}
            self.unit = containerd.choose_unit(self.kind, states) or self.unit
        return super().commands()

    def reads(self, view: RuntimeView, path: str) -> t.Tuple[str, ...]:
        return tuple(read for read in super().reads(view, path) if read != self.kind.config_path)

    def _check_owner(self, path: str, view: RuntimeView) -> None:
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

    def left_out(self, names: t.Container[str]) -> bool:
        return False


class Rke2(K3s):
    """The containerd of RKE2."""

    kind = containerd.RKE2


class K0s(K3s):
    """The containerd of k0s, which merges the CRI sections of a folder's files when it starts."""

    kind = containerd.K0S

    def _is_managed(self) -> bool:
        text = self._host.read(self.kind.config_path) or ""
        return text.startswith(f"{containerd.K0S_MANAGED}\n")

    def _drop_in(self, config: Config, version: Version) -> t.Optional[str]:
        return containerd.K0S_DROP_IN if self._is_managed() else super()._drop_in(config, version)

    def _check_owner(self, path: str, view: RuntimeView) -> None:
        """Allow edits of a file that the user has taken over from k0s."""

    def _read_all(self, path: str, config: Config) -> t.Dict[str, Config]:
        configs, name = super()._read_all(path, config), containerd.K0S_DROP_IN
        if self._is_managed():
            own = self.parse(self._host.read(name) or "", name)
            configs[name] = apply(
                configs.get(containerd.K0S_MERGED, {}), containerd.leaves(own), ()
            )
        return configs

    def _dump(self, path: str, version: Version) -> Config:
        """Return what containerd makes of its files, with our settings as k0s will merge them at its next start."""
        dump = super()._dump(path, version)
        own = self.parse(self._host.read(containerd.K0S_DROP_IN) or "", containerd.K0S_DROP_IN)
        if not own or not self._is_managed() or path != self.kind.config_path:
            return dump
        source, target = (containerd.section(config, version) for config in (own, dump))
        section = lookup(own, source) or {}
        return apply(dump, containerd.leaves(section, target), ())

    def trial(self, view: RuntimeView, path: str, texts: Texts) -> t.Mapping[str, t.Any]:
        name = containerd.K0S_DROP_IN
        if not self._is_managed() or name not in texts:
            return super().trial(view, path, texts)
        own = self.parse(texts[name] or "", name)
        settings = [change for change in containerd.leaves(own) if change[0] != ("version",)]
        merged = self.edit(self._host.read(containerd.K0S_MERGED) or "", settings)
        return super().trial(view, path, {containerd.K0S_MERGED: merged})

    def reads(self, view: RuntimeView, path: str) -> t.Tuple[str, ...]:
        folder = posixpath.dirname(containerd.K0S_DROP_IN)
        names = fnmatch.filter(self._host.listdir(folder), "*.toml")
        own = tuple(f"{folder}/{name}" for name in names)
        return own if self._is_managed() else super().reads(view, path)


class MicroK8s(Containerd):
    """The containerd of MicroK8s, which writes its file from a template when it starts."""

    kind = containerd.MICROK8S

    def path(self) -> str:
        return self.kind.config_path

    def left_out(self, names: t.Container[str]) -> bool:
        return False
