# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The command line of a container runtime: which files it chooses, and which keys it sets by flags."""

from __future__ import annotations

import posixpath
import re
import shlex
import typing as t

from .edits import Change, Config, Path

# "${NAME}" is part of a word, "$NAME" as a whole word is split at blanks: systemd.service(5), "Command lines".
IN_WORD = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
WHOLE_WORD = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
VALUE, LIST, PROGRAMS, SWITCHES = "value", "list", "programs", "switches"  # forms of a flag
ARGV = re.compile(r"\bargv\[\]=(.*?) ; ")  # in systemd's property ExecStart


class Flag(t.NamedTuple):
    """A flag of a runtime's program that takes a value.

    ``key`` is where the file has the same setting; a flag without it names a file or folder that is read.
    ``form`` is how the values are written: see ``Flag.changes``. ``variable`` is the one of the environment that
    the program takes instead of the flag.
    """

    names: t.Tuple[str, ...]
    key: Path = ()
    form: str = VALUE
    variable: str = ""

    def spellings(self) -> t.Tuple[str, ...]:
        """Return the flag as command lines have it; Go's own parser takes one dash for two."""
        long = (name for name in self.names if len(name) > 1)
        return (*(f"--{name}" for name in long), *(f"-{name}" for name in self.names))

    def is_set_by(self, arg: str) -> bool:
        """Return whether an argument is this flag, with or without its value."""
        return arg.split("=", 1)[0] in self.spellings()

    def is_in(self, text: str) -> bool:
        """Return whether a text, such as that of a unit, has the flag or its variable."""
        names = [*self.spellings(), *filter(None, [self.variable])]
        return any(re.search(rf"(?<![\w-]){name}(?![\w-])", text) for name in names)

    def values(self, args: t.Sequence[str]) -> t.List[str]:
        """Return the flag's values on a command line, in their order."""
        values = []
        for index, arg in enumerate(args):
            if self.is_set_by(arg):
                following = args[index + 1] if index + 1 < len(args) else ""
                values.append(arg.split("=", 1)[1] if "=" in arg else following)
        return values

    def changes(self, values: t.Sequence[str]) -> t.List[Change]:
        """Return the keys that the flag sets by these values, with values as a file has them."""
        if not values or not self.key:
            return []
        if self.form == LIST:
            return [(self.key, [item for value in values for item in value.split(",")])]
        pairs = [value.partition("=") for value in values]
        if self.form == PROGRAMS:  # NAME=PATH
            return [((*self.key, name, "path"), path) for name, _equal, path in pairs]
        if self.form == SWITCHES:  # NAME, or NAME=false
            return [((*self.key, name), value != "false") for name, _equal, value in pairs]
        return [(self.key, values[-1])]


class StartCommand(t.NamedTuple):
    """The arguments that a runtime's program is started with, and the environment that counts beside them.

    ``is_known`` is false where neither a process nor a unit was found that starts the program.
    """

    args: t.Tuple[str, ...] = ()
    environment: t.Mapping[str, str] = {}
    is_known: bool = False

    def value(self, flag: t.Optional[Flag]) -> str:
        """Return the value of a flag that counts, empty if it is not set."""
        values = self.values(flag) if flag is not None else []
        return values[-1] if values else ""

    def values(self, flag: Flag) -> t.List[str]:
        """Return the values of a flag, or that of its variable where the command line has none."""
        variable = self.environment.get(flag.variable, "") if flag.variable else ""
        return flag.values(self.args) or [variable] * bool(variable)

    def without(self, flags: t.Sequence[t.Optional[Flag]]) -> t.List[str]:
        """Return the arguments without these flags and their values."""
        args, skipped = [], False
        for arg in self.args:
            if skipped:
                skipped = False
            elif any(flag is not None and flag.is_set_by(arg) for flag in flags):
                skipped = "=" not in arg
            else:
                args.append(arg)
        return args

    def settings(self, flags: t.Iterable[Flag]) -> t.List[Change]:
        """Return the keys that flags set, with values as a file has them."""
        return [change for flag in flags for change in flag.changes(self.values(flag))]


NO_COMMAND = StartCommand()


def from_process(text: str, program: str) -> t.Optional[t.Tuple[str, ...]]:
    """Return the arguments in the text of /proc/<pid>/cmdline, None if it is another program's."""
    argv = text.split("\0")
    if posixpath.basename(argv[0]) != posixpath.basename(program):
        return None
    return tuple(argv[1:-1] if argv[-1] == "" else argv[1:])


def from_unit(
    exec_start: t.Sequence[str], environment: t.Mapping[str, str], program: str
) -> t.Optional[t.Tuple[str, ...]]:
    """Return the arguments that a unit gives a program, None if it starts another one.

    ``exec_start`` are systemd's values of the property ExecStart.
    """
    for match in filter(None, map(ARGV.search, exec_start)):
        argv = expanded(match[1].split(), environment)
        if argv and posixpath.basename(argv[0]) == posixpath.basename(program):
            return tuple(argv[1:])
    return None


def expanded(argv: t.Iterable[str], environment: t.Mapping[str, str]) -> t.List[str]:
    """Return the words of a command line with their variables replaced as systemd does."""
    args: t.List[str] = []
    for word in argv:
        whole = WHOLE_WORD.fullmatch(word)
        if whole:
            args += split(environment.get(whole[1], ""))
        else:
            text = IN_WORD.sub(lambda match: environment.get(match[1], ""), word)
            args.append(text.replace("$$", "$"))
    return args


def split(text: str) -> t.List[str]:
    """Return the words of a text, without the quotes around them."""
    try:
        return shlex.split(text)
    except ValueError:  # a quote without its end
        return text.split()


def environment_file(text: str) -> t.Dict[str, str]:
    """Return the variables of a file that EnvironmentFile= names: systemd.exec(5)."""
    variables = {}
    for line in text.replace("\\\n", "").splitlines():
        name, equal, value = line.strip().partition("=")
        if equal and not name.startswith(("#", ";")):
            variables[name.strip()] = (
                " ".join(split(value)) if value[:1] in "\"'" else value.strip()
            )
    return variables


def with_flags(config: t.Mapping[str, t.Any], changes: t.Iterable[Change]) -> Config:
    """Return a configuration with the keys that flags set, where the file has them not."""
    merged: Config = dict(config)
    for path, value in changes:
        table = merged
        for key in path[:-1]:
            below = table.get(key)
            table[key] = dict(below) if isinstance(below, t.Mapping) else {}
            table = table[key]
        table.setdefault(path[-1], value)
    return merged
