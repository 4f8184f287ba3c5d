# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""CRI-O on a node: how its files are read, tried and understood, and what its daemon checks when it starts.

By CRI-O's source (pkg/config/config.go of 1.36): a later file replaces the whole entry of a runtime;
a daemon ends where an entry names no monitor and PATH has no conmon, which ``crio config`` does not check.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import re
import stat
import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.visible_devices import TOOLKIT_CONFIG
from ..edits import Change, lookup
from ..start_command import Flag
from ..state import CDI, CRIO, SPEC_DIRS, RuntimeOptions, RuntimeView, has_cdi
from . import toml
from .engine import Runtime, Texts, listed, option, trial_folder, watched, would_lose

DEFAULT_RUNTIMES = ("crun", "runc")  # one of them is the default one where no file names one
# What of the default runtime's entry is not for another program: where its own is, and which entry it is like.
OWN = (
    "runtime_path",
    "platform_runtime_paths",
    "runtime_config_path",
    "inherit_default_runtime",
)
MAIN = "/etc/crio/crio.conf"
PAUSE_IMAGE = ("crio", "image", "pause_image")
LISTEN = Flag(("listen",), ("crio", "api", "listen"), variable="CONTAINER_LISTEN")
MONITOR = "conmon"
LOW_LEVEL = ("runc", "crun")  # what NVIDIA's runtime calls where its own configuration names none
Section = t.Mapping[str, t.Any]


class Crio(Runtime):
    """CRI-O, which reads and merges a folder of drop-in files."""

    kind = CRIO

    def path(self) -> str:
        folder = self.commands().running.value(self.kind.start.folder)
        name = posixpath.basename(self.kind.config_path)
        return posixpath.join(folder, name) if folder else self.kind.config_path

    def _main(self) -> str:
        """Return the main file, which is read before those of the folder."""
        return self.commands().running.value(self.kind.start.file) or MAIN

    def chosen_path(self, config_path: t.Optional[str]) -> str:
        main, folder = self._main(), posixpath.dirname(self.path())
        if config_path is None:
            return self.path()
        if config_path != main and posixpath.dirname(config_path) != folder:
            expected = f"{main}, or a file in {folder}, which {self.unit} reads"
            raise InputError.of("config_path", config_path, expected)
        return config_path

    def view(self, path: str, options: RuntimeOptions) -> RuntimeView:
        version = self._version()
        has_cdi(self.kind, version, options)
        own = lookup(self.parse(self._host.read(path) or "", path), self.kind.keys.prefix) or {}
        shown = self._shown([*self.commands().running.args])
        needed: t.Tuple[Change, ...] = ()
        if options.mode:
            # What would be the default runtime, and what it would have, without us.
            base = self._tried({path: None}) if own and options.mode != CDI else shown
            needed = tuple(
                self.kind.keys.settings(shown, options, True, self._handler(base, options))
            )
        return RuntimeView(
            version,
            path,
            prefix=self.kind.keys.prefix,
            effective=known(shown, own, options, needed),
            settings=needed,
            warnings=self.about_program(shown, options) + self._warn_of_low_level(options),
            loaded=tuple(self._files(posixpath.dirname(self.path()))),
        )

    def reads(self, view: RuntimeView, path: str) -> t.Tuple[str, ...]:
        return (self._main(), *view.loaded)

    def running(self, path: str) -> t.Optional[t.Mapping[str, t.Any]]:
        section_running = lookup(self._status(), self.kind.keys.prefix)
        return section_running if isinstance(section_running, dict) else None

    def _status(self) -> Section:
        """Return what the daemon says of its configuration, empty if it does not answer."""
        socket = self.socket()
        place = [] if socket == self.kind.socket else [f"--socket={socket}"]
        shown = self._host.run([self.kind.program, "status", *place, "config"], check=False)
        try:
            return toml.parse(shown.out if shown.rc == 0 else "", "crio status config")
        except NodeError:
            return {}

    def socket(self) -> str:
        listening: t.Any = ""
        # A damaged file is refused where it is edited.
        with contextlib.suppress(NodeError):
            for config in self._configurations({}):
                listening = lookup(config, LISTEN.key) or listening
        return self.commands().running.value(LISTEN) or str(listening or self.kind.socket)

    def pause_image(self) -> str:
        """Return the image that pods begin with, empty if neither the daemon nor the program says it."""
        configs = (self._status(), self._built_in_configuration)
        images = (lookup(config, PAUSE_IMAGE) for config in configs)
        return str(next(filter(None, images), ""))

    def _warn_of_low_level(self, options: RuntimeOptions) -> t.Tuple[str, ...]:
        """Return the warning that NVIDIA's runtime finds no other to call: upstream's packages have it outside PATH."""
        if options.mode in ("", CDI):
            return ()
        names = self._low_levels()
        if any(self._host.which(name) for name in names):
            return ()
        return (
            f"{options.runtime_path} looks for {' or '.join(names)}, and the node has none of them in "
            f"PATH. Next step: name CRI-O's own in 'runtimes' of [nvidia-container-runtime] in {TOOLKIT_CONFIG}",
        )

    def _low_levels(self) -> t.Sequence[str]:
        """Return the runtimes of which NVIDIA's calls the first that is installed."""
        text = self._host.read(TOOLKIT_CONFIG) or ""
        at = ("nvidia-container-runtime", "runtimes")
        value = lookup(toml.parse(text, TOOLKIT_CONFIG), at)
        programs = value if isinstance(value, list) else []
        return [program for program in programs if isinstance(program, str)] or LOW_LEVEL

    def _shown(self, args: t.Sequence[str], texts: t.Optional[Texts] = None) -> t.Dict[str, t.Any]:
        """Return the section in effect; ``texts`` are what files would have that CRI-O is shown elsewhere.

        ``crio config`` leaves out keys that its template does not know, so the entries of runtimes are the files'.
        """
        variables = self.commands().running.environment
        completed = self._host.run([self.kind.program, *args, "config"], check=False, env=variables)
        if completed.rc != 0:
            # Without what CRI-O only informs of.
            lines = completed.err.strip().split("\n")
            errors = [line for line in lines if re.search(r"\blevel=(error|fatal)\b", line)]
            raise NodeError(
                "CRI-O can't read its configuration",
                cause="\n".join(errors or lines),
                hint="fix the file that it names; nothing was changed",
            )
        section_shown = section(toml.parse(completed.out, "crio config"))
        runtimes = {**(section_shown.get("runtimes") or {})}
        for config in self._configurations(texts or {}):  # a later file replaces a whole entry
            runtimes.update(lookup(config, (*self.kind.keys.prefix, "runtimes")) or {})
        return {**section_shown, "runtimes": runtimes} if runtimes else section_shown

    def _configurations(self, texts: Texts) -> t.Iterator[Section]:
        """Yield what is in each file, in CRI-O's order; ``texts`` are what some of them would have."""
        main, folder = self._main(), posixpath.dirname(self.path())
        names = {*self._files(folder), *(path for path in texts if path != main)}
        # As CRI-O walks through the folder.
        drop_ins = sorted(names, key=lambda name: name.split("/"))
        for path in (main, *drop_ins):
            text = texts[path] if path in texts else self._host.read(path)
            yield toml.parse(text or "", path)

    def _handler(self, base: Section, options: RuntimeOptions) -> t.Iterator[Change]:
        """Yield what the handler's entry must have, which is like another one but for its program."""
        entry = like(base, options.handler)[1] or self._built_in(base, options.handler)[1]
        at = ("runtimes", options.handler)
        yield (*at, CRIO.keys.handler), options.runtime_path
        yield from (((*at, key), value) for key, value in entry.items() if value and key not in OWN)

    def _built_in(self, shown: Section, handler: str) -> t.Tuple[str, Section]:
        """Return the default runtime if no file has an entry of it: CRI-O shows those of its own as comments."""
        defaults = section(self._built_in_configuration)
        default = shown.get("default_runtime") or defaults.get("default_runtime")
        return like({**defaults, "default_runtime": default}, handler)

    @functools.cached_property
    def _built_in_configuration(self) -> Section:
        """The configuration that CRI-O has by itself, empty if it does not print it."""
        shown = self._host.run([self.kind.program, "config", "--default"], check=False)
        return toml.parse(shown.out if shown.rc == 0 else "", "crio config --default")

    def _files(self, folder: str) -> t.Iterator[str]:
        """Yield all files below a folder, in CRI-O's order."""
        for name in self._host.listdir(folder):
            path = f"{folder}/{name}"
            status = self._host.status(path)
            link = self._host.readlink(path) is not None
            if status is not None and stat.S_ISDIR(status.mode) and not link:
                yield from self._files(path)
            else:
                yield path

    def _tried(self, texts: Texts) -> t.Mapping[str, t.Any]:
        """Return what CRI-O makes of other texts in some files: it reads all of its folder, whatever their names."""
        main, folder, trial = self._main(), posixpath.dirname(self.path()), trial_folder()
        files = {**{file: self._host.read(file) for file in self._files(folder)}, **texts}

        def place(path: str) -> str:
            return f"{trial}/main" if path == main else f"{trial}/folder{path[len(folder) :]}"

        there = {place(path): text for path, text in files.items() if text is not None}
        flags = [self.kind.start.folder]
        args = ["--config-dir", f"{trial}/folder"]
        if main in texts:
            there[place(main)] = texts[main] or ""
            flags, args = [*flags, self.kind.start.file], ["--config", place(main), *args]
        with self._trial(trial, there, {path: place(path) for path in texts}):
            self._host.makedirs(f"{trial}/folder")
            return self._shown([*args, *self.commands().running.without(flags)], texts)

    def trial(self, view: RuntimeView, path: str, texts: Texts) -> t.Mapping[str, t.Any]:
        shown = self._tried(texts)
        for at, _value in view.settings:
            if at[:1] == ("runtimes",) and at[-1] == self.kind.keys.handler:
                self._check_monitor(shown, at[1])
        return shown

    def setting_file(self, view: RuntimeView, lacking: t.Sequence[Change]) -> str:
        for file in reversed(view.loaded):
            config = toml.parse(self._host.read(file) or "", file)
            paths = [(*self.kind.keys.prefix, *path) for path, _value in lacking]
            # An entry is replaced as a whole.
            keys = [path[:-1] if path[2] == "runtimes" else path for path in paths]
            if file != view.file and any(lookup(config, key) is not None for key in keys):
                return file
        return ""

    def check_running(self, view: RuntimeView, after: Section) -> None:
        both = (view.effective, after)
        was, becomes = (like(config, "")[0] or self._built_in(config, "")[0] for config in both)
        there, stays = (config.get("runtimes") or {} for config in both)
        kinds = self._low_level(was, there), self._low_level(becomes, stays)
        if kinds[0] != kinds[1]:
            names = self._started_by(_program(was, there))
            cause = (
                f"{was} has started them, and CRI-O asks the runtime that is the default about them: {becomes}, which "
                f"calls {kinds[1]}"
            )
            hint = (
                f"drain the node, or name {kinds[0]} first in 'runtimes' of [nvidia-container-runtime] in "
                f"{TOOLKIT_CONFIG}, then run again"
            )
            _refuse_loss(names, cause, hint)
        for name in sorted(there.keys() - stays.keys()):
            names = self._started_by(_program(name, there))
            cause = f"they run under the handler {name}, without which CRI-O can't end them"
            _refuse_loss(names, cause, "end them, then run again")

    def _low_level(self, name: str, runtimes: Section) -> str:
        """Return what a runtime calls in the end, such as crun: itself, unless it is NVIDIA's."""
        program = _program(name, runtimes)
        if posixpath.basename(program) != posixpath.basename(RuntimeOptions().runtime_path):
            return posixpath.basename(program)
        return next(filter(self._host.which, self._low_levels()), "")

    def _started_by(self, program: str) -> t.Tuple[str, ...]:
        """Return the containers whose monitor was told to use a program.

        Monitors are in the node's own namespace of processes, in which a container's can't pass for one. If that
        can't be read, all monitors count.
        """
        own = self._host.readlink("/proc/1/ns/pid")
        every = filter(str.isdigit, self._host.listdir("/proc"))
        spaces = {pid: self._host.readlink(f"/proc/{pid}/ns/pid") for pid in every}
        pids = (pid for pid, space in spaces.items() if own in (space, None))
        commands = {self._host.read(f"/proc/{pid}/cmdline") or "" for pid in pids}
        containers = []
        for command in commands:
            path = option(command.split("\0"), ("-r", "--runtime"))
            if path and program in (path, posixpath.basename(path)):
                containers.append(watched(command))
        return tuple(sorted(filter(None, containers)))

    def _check_monitor(self, shown: Section, name: str) -> None:
        entry = lookup(shown, ("runtimes", name)) or {}
        monitor = str(shown.get("conmon") or entry.get("monitor_path") or MONITOR)
        if not is_oci(entry) or self._host.which(monitor) is not None:
            return
        base, _entry = like(shown, name)
        message = f"cri-o would not start with the handler {name}"
        if monitor != MONITOR:
            cause = f"its monitor {monitor} is not there"
            raise NodeError(message, cause=cause, hint=f"install {monitor}")
        raise NodeError(
            message,
            cause=f"PATH has no {monitor}, and the runtime {base or 'that is the default'} has no monitor_path",
            hint=f"set monitor_path in [crio.runtime.runtimes.{base or 'crun'}] to where conmon is",
        )


def _program(name: str, runtimes: Section) -> str:
    """Return the program of a runtime, which CRI-O looks for in PATH by the runtime's name where none is set."""
    return str((runtimes.get(name) or {}).get(CRIO.keys.handler) or name)


def _refuse_loss(names: t.Sequence[str], cause: str, step: str) -> None:
    if names:
        raise would_lose(
            f"cri-o would lose {listed(names)}: the processes would run on, and their pods start a second time",
            cause,
            step,
        )


def section(config: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """Return CRI-O's section with the defaults, which ``crio config`` shows as comments."""
    return {"cdi_spec_dirs": list(SPEC_DIRS), **(lookup(config, CRIO.keys.prefix) or {})}


def like(shown: Section, handler: str) -> t.Tuple[str, Section]:
    """Return name and entry of the runtime that a handler copies: the default one, if it is no virtual machine."""
    for name in (shown.get("default_runtime"), *DEFAULT_RUNTIMES):
        entry = lookup(shown, ("runtimes", str(name)))
        if name != handler and isinstance(entry, t.Mapping) and is_oci(entry):
            return str(name), entry
    return "", {}


def is_oci(entry: Section) -> bool:
    """Return whether a runtime is one that conmon watches."""
    return entry.get("runtime_type") in (None, "", "oci")


def known(
    shown: Section, own: Section, options: RuntimeOptions, needed: t.Sequence[Change]
) -> Section:
    """Return the section in effect; the handler is only what our file has, if it has to be written."""
    at = ("runtimes", options.handler)
    here = [(path, value) for path, value in needed if path[:2] == at]
    if options.mode in ("", CDI) or all(lookup(shown, path) == value for path, value in here):
        return shown
    runtimes = {**(shown.get("runtimes") or {}), options.handler: lookup(own, at) or {}}
    return {**shown, "runtimes": runtimes}
