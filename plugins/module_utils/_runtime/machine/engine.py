# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What all container runtimes of a node have in common, and which containers a restart of one would end."""

from __future__ import annotations

import contextlib
import secrets
import typing as t

from ..._base.errors import InputError, NodeError
from ..._machine.host import Host
from ..._machine.units import properties
from .. import json_text, toml_text
from ..edits import Change, Config, Removal, lookup
from ..start_command import PROGRAMS, Flag
from ..state import (
    CDI,
    RuntimeKind,
    RuntimeOptions,
    RuntimeView,
    Version,
    check_types,
    has_cdi,
    parse_version,
)
from . import start_commands, toml
from .start_commands import CGROUPS, StartCommands

NEVER, WHEN_IDLE, ALWAYS = "never", "when_idle", "always"
ADDRESS = Flag(("address", "a"))  # of containerd
MOST = 5  # names in a message
SHORT = 12  # characters of an id, as the field shows it
# The properties of a unit with others that start it, such as docker.socket.
STARTERS = ("WantedBy", "RequiredBy", "BoundBy", "TriggeredBy")
# With these, systemd ends the main process of a unit and leaves the others: containers and what watches them.
SPARING = ("process", "none", "")
WATCHERS = ("containerd-shim", "conmon")
TRIAL = "/run/gpu-node/runtime-trial"  # the beginning of the names of trial folders

Texts = t.Mapping[str, t.Optional[str]]  # what files are to have in them, by path; None: no file


class Runtime:
    """One container runtime of a ``kind``; ``unit`` is the one that runs it."""

    kind: RuntimeKind

    def __init__(self, host: Host) -> None:
        self._host = host
        self.unit = self.kind.units[0] if self.kind.units else ""
        self._commands: t.Dict[str, StartCommands] = {}  # by unit

    def commands(self) -> StartCommands:
        """Return how its program was started, and how its unit will start it next."""
        if self.unit not in self._commands:
            self._commands[self.unit] = start_commands.read(self._host, self.unit, self.kind)
        return self._commands[self.unit]

    def forget_command(self) -> None:
        """Read the process again the next time, which may be another one."""
        self._commands.clear()

    def path(self) -> str:
        """Return the file to edit: the one that the running program was started with."""
        return self.commands().running.value(self.kind.start.file) or self.kind.config_path

    def socket(self) -> str:
        """Return where it serves the kubelet: its flag, its file, or the usual place."""
        address = self.commands().running.value(ADDRESS)
        path = self.path()
        config: Config = {}
        # A damaged file is refused where it is edited.
        with contextlib.suppress(NodeError):
            config = self.parse(self._host.read(path) or "", path)
        file = lookup(config, ("grpc", "address"))
        return str(address or file or self.kind.socket)

    def moved(self) -> t.Tuple[str, ...]:
        """Return the warning about a unit that reads another file from its next start on."""
        for flag in filter(None, (self.kind.start.file, self.kind.start.folder)):
            running, planned = (command.value(flag) for command in self.commands()[:2])
            if running != planned:
                return (
                    f"{self.unit} reads {planned or 'its usual file'} from its next start on, and runs by "
                    f"{running or 'its usual file'}. Next step: restart {self.unit}, then run again",
                )
        return ()

    def chosen_path(self, config_path: t.Optional[str]) -> str:
        """Return the file to edit.

        Raises:
            InputError: if the user's ``config_path`` is not the one that the program was started with.
        """
        path, command, flag = self.path(), self.commands().running, self.kind.start.file
        if config_path is None or config_path == path or flag is None:
            return path
        is_chosen = bool(command.value(flag))
        if not command.is_known or (self.kind.toml and not is_chosen):
            return config_path  # it may be a file that the usual one imports
        expected = f"{path}, which {self.unit} starts {self.kind.program} with"
        error = InputError.of("config_path", config_path, expected)
        error.hint = "leave it empty"
        if is_chosen:
            error.hint += f", or change {self.commands().origin(self._host, flag, self.unit)}"
        raise error

    def refuse_flags(self, changes: t.Iterable[Change], path: str, options: RuntimeOptions) -> None:
        """Refuse to set a key that a flag sets: some programs do not start then, others take the flag's value."""
        kind, start = self.kind, len(self.kind.keys.prefix)
        keys = [key[start:] for key, _value in changes]
        for command in self.commands().both():
            for flag in kind.start.flags:
                values = command.values(flag)
                is_set = any(key[: len(flag.key)] == flag.key for key in keys)
                if not values or not is_set or flag.form == PROGRAMS:
                    continue
                text = f"{flag.spellings()[0]}={values[-1]}"
                origin = self.commands().origin(self._host, flag, self.unit)
                expected = (
                    f"a value that needs no {'.'.join(flag.key)} in {path}: {self.unit} starts {kind.program} "
                    f"with {text}, set in {origin}, and the file can't set it too"
                )
                error = InputError.of("mode", options.mode, expected)
                if flag.key == kind.keys.spec_dirs:
                    error = InputError.of("spec_dirs", list(options.spec_dirs), expected)
                again = f"restart {self.unit}, then run again; nothing was changed"
                error.hint = f"remove {text} from {origin}, {again}"
                raise error

    def check_next_start(self, view: RuntimeView, path: str) -> None:
        """Refuse a file with which the unit would not start again.

        Raises:
            NodeError: if the program refuses the file.
        """

    def check_running(self, view: RuntimeView, after: t.Mapping[str, t.Any]) -> None:
        """Refuse a configuration with which the runtime would lose containers that run.

        Args:
            view: What it has now.
            after: What it has on the trial.

        Raises:
            NodeError: if there are such containers; its hint says what keeps them.
        """

    def running(self, path: str) -> t.Optional[t.Mapping[str, t.Any]]:
        """Return what the running program says that it has, from the kind's ``prefix`` on.

        None if it can't be asked or does not answer, which says nothing of what it has.
        """
        return None

    def view(self, path: str, options: RuntimeOptions) -> RuntimeView:
        """Read version and configuration, and compute the settings that it must have."""
        raise NotImplementedError

    def about_program(
        self, effective: t.Mapping[str, t.Any], options: RuntimeOptions
    ) -> t.Tuple[str, ...]:
        """Return the warning about a default runtime whose program is gone, as another tool may leave it behind.

        The mode's own program is looked for before, if the mode needs it.
        """
        name, program = self.default_program(effective)
        needed = options.mode not in ("", CDI) and program == options.runtime_path
        is_there = self._host.exists if program.startswith("/") else self._host.which
        if not program or needed or is_there(program):
            return ()
        return (
            f"{self.kind.name}'s default runtime {name} names {program}, which is not there: no container can be "
            "started. Next step: make another one the default, or bring the program back",
        )

    def default_program(self, effective: t.Mapping[str, t.Any]) -> t.Tuple[str, str]:
        """Return the default runtime and the program that is set for it, empty if none is."""
        name = str(lookup(effective, self.kind.keys.default) or "")
        return name, str(lookup(effective, ("runtimes", name, self.kind.keys.handler)) or "")

    def reads(self, view: RuntimeView, path: str) -> t.Tuple[str, ...]:
        """Return the files that the program read when it started, but for those that it writes itself."""
        return view.loaded or (path,)

    def state(self) -> str:
        """Return the ActiveState of its service, empty if it is not known; "active" if it needs none."""
        if not self.unit:
            return "active"
        return properties(self._host, self.unit, "ActiveState").get("ActiveState", "")

    def down(self) -> str:
        """Return why its service starts no container, now or after a boot; empty if it does or nothing is known."""
        if not self.unit:
            return ""
        state = properties(self._host, self.unit, "ActiveState", "UnitFileState", *STARTERS)
        active = state.get("ActiveState", "")
        if active in ("inactive", "failed"):
            message = f"{self.unit} is {active}, so no container starts"
            return f"{message}. Next step: systemctl start {self.unit}"
        if state.get("UnitFileState") == "disabled" and not any(map(state.get, STARTERS)):
            message = f"{self.unit} is disabled, and no other unit starts it: after the next boot no container starts"
            return f"{message}. Next step: systemctl enable {self.unit}"
        return ""

    def check(self, options: RuntimeOptions) -> None:
        """Refuse a version that does not support the options, without a look at any file.

        Raises:
            Unfit: if it does not support CDI, and the mode needs it.
        """
        has_cdi(self.kind, self._version(), options)

    def trial(self, view: RuntimeView, path: str, texts: Texts) -> t.Mapping[str, t.Any]:
        """Return what the runtime would make of its files with these texts.

        Raises:
            NodeError: if it refuses them.
        """
        raise NotImplementedError

    def setting_file(self, view: RuntimeView, lacking: t.Sequence[Change]) -> str:
        """Return the file that overrides the edited one, empty if it is not known."""
        return ""

    def ended(self, path: str) -> t.Tuple[str, ...]:
        """Return the containers that a restart of the unit would end, by their names."""
        state = properties(self._host, self.unit, "ActiveState", "KillMode", "ControlGroup")
        if state.get("ActiveState") != "active" or state.get("KillMode", "") in SPARING:
            return ()
        containers_ended: t.List[t.Optional[str]] = []
        for root in CGROUPS:
            procs = self._host.read(f"{root}{state.get('ControlGroup')}/cgroup.procs") or ""
            lines = (self._host.read(f"/proc/{pid}/cmdline") or "" for pid in procs.split())
            containers_ended += map(watched, lines)
        return tuple(sorted({pid for pid in containers_ended if pid}))

    def left_out(self, names: t.Container[str]) -> bool:
        """Return whether nothing on this node uses it, given the other runtimes that are there."""
        return False

    def parse(self, text: str, path: str) -> Config:
        """Return the content of a file.

        Raises:
            NodeError: if it is not valid; it names the line and what is expected.
        """
        config = toml.parse(text, path) if self.kind.toml else json_text.parse(text, path)
        line = toml_text.line if self.kind.toml else json_text.line
        check_types(self.kind, config, lambda key: f"{path}, line {line(text, key)}")
        return config

    def edit(
        self, text: str, changes: t.Sequence[Change], removals: t.Sequence[Removal] = ()
    ) -> str:
        """Return the text of a file after an edit."""
        return (toml.edit if self.kind.toml else json_text.edit)(text, changes, removals)

    def _version(self) -> Version:
        return parse_version(self._host.run([self.kind.program, "--version"]).out, self.kind.name)

    @contextlib.contextmanager
    def _trial(
        self, folder: str, files: t.Mapping[str, str], tried: t.Mapping[str, str]
    ) -> t.Iterator[None]:
        """Write files for the time of a with statement; ``tried`` are the files by the paths that they stand for."""
        try:
            for name, text in files.items():
                self._host.write(name, text, mode=0o600)
            yield
        except NodeError as error:
            cause = error.cause
            for path, stand_in in tried.items():
                cause = cause.replace(stand_in, path)
            message = f"{self.kind.name} refuses what {', '.join(tried)} would be"
            hint = "fix what it names; nothing was changed"
            raise NodeError(message, cause=cause, hint=hint) from error
        finally:
            self._host.remove(folder)


def trial_folder() -> str:
    """Return a folder for a trial's files that no other process uses: check mode waits for no lock."""
    return f"{TRIAL}-{secrets.token_hex(8)}"


def watched(command: str) -> t.Optional[str]:
    """Return the container that a process watches, by its NUL-separated command line."""
    argv = command.split("\0")
    if not argv[0].rpartition("/")[2].startswith(WATCHERS):
        return None
    value = option(argv, ("-id", "--id", "-c", "--cid"))
    return value[:SHORT] if value else argv[0]


def option(argv: t.Sequence[str], names: t.Sequence[str]) -> str:
    """Return the argument after an option of a command line, empty if it is not there."""
    there = [name for name in names if name in argv[:-1]]
    return argv[argv.index(there[0]) + 1] if there else ""


def would_lose(message: str, cause: str, step: str) -> NodeError:
    """Return the refusal of a change that would lose running containers; ``step`` keeps them."""
    hint = f"{step}; restart: always changes it all the same. Nothing was changed"
    return NodeError(message, cause=cause, hint=hint)


def listed(names: t.Sequence[str]) -> str:
    """Return names for a message: the first of them, and how many more there are."""
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")
