# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How a container runtime was started, and how its unit will start it next."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from ..start_command import (
    Flag,
    StartCommand,
    environment_file,
    from_process,
    from_unit,
    split,
)
from ..state import RuntimeKind

PROPERTIES = (
    "MainPID",
    "ControlGroup",
    "ExecStart",
    "Environment",
    "EnvironmentFiles",
    "FragmentPath",
    "DropInPaths",
)
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")  # version 2, version 1
FILE_MODE = " (ignore_errors="  # what systemd adds to each file of EnvironmentFiles


class StartCommands(t.NamedTuple):
    """The command of the running process, that of the unit's next start, and the files that make it.

    Where the program does not run, ``running`` is the same as ``next_start``.
    """

    running: StartCommand = StartCommand()
    next_start: StartCommand = StartCommand()
    files: t.Tuple[str, ...] = ()  # the one that counts most first

    def both(self) -> t.Tuple[StartCommand, ...]:
        """Return the two commands, once if they are equal."""
        return tuple([self.running, self.next_start][: 1 + (self.running != self.next_start)])

    def origin(self, host: Host, flag: Flag, unit: str) -> str:
        """Return the file that sets a flag, or the unit where none of its files has it."""
        return next((path for path in self.files if flag.is_in(host.read(path) or "")), unit)


def read(host: Host, unit: str, kind: RuntimeKind) -> StartCommands:
    """Ask systemd and the kernel how a runtime is started by its unit."""
    properties = _properties(host, unit)
    paths = [path.split(FILE_MODE)[0] for path in properties["EnvironmentFiles"]]
    variables = (text for value in properties["Environment"] for text in split(value))
    pairs = (variable.partition("=") for variable in variables)
    environment = {name: value for name, _equal, value in pairs}
    for path in paths:
        environment.update(environment_file(_text(host, path)))
    running = _running(host, properties, kind)
    args = from_unit(properties["ExecStart"], environment, kind.program)
    if args is not None:
        next_start = StartCommand(args, _counting(environment, kind), is_known=True)
    else:
        next_start = running or StartCommand()
    drop_ins = " ".join(properties["DropInPaths"]).split()
    files = (*reversed(paths), *reversed(drop_ins), *properties["FragmentPath"])
    return StartCommands(running or next_start, next_start, files)


def _text(host: Host, path: str) -> str:
    """Return what is in a file, nothing if it can't be read: a process may have ended."""
    try:
        return host.read(path) or ""
    except NodeError:
        return ""


def _counting(environment: t.Mapping[str, str], kind: RuntimeKind) -> t.Dict[str, str]:
    prefix = kind.start.variables
    return {name: text for name, text in environment.items() if prefix and name.startswith(prefix)}


def _properties(host: Host, unit: str) -> t.Dict[str, t.List[str]]:
    """Return properties of a unit by name, each with a value for each time that systemd names it."""
    values_by_name: t.Dict[str, t.List[str]] = {name: [] for name in PROPERTIES}
    if unit:
        argv = ["systemctl", "show", unit, f"--property={','.join(PROPERTIES)}"]
        for line in host.run(argv, check=False).out.splitlines():
            name, _equal, value = line.partition("=")
            if name in values_by_name and value:
                values_by_name[name].append(value)
    return values_by_name


def _running(
    host: Host, properties: t.Mapping[str, t.Sequence[str]], kind: RuntimeKind
) -> t.Optional[StartCommand]:
    """Return the command of the process that is the program, which a wrapper may have started."""
    main = [pid for pid in properties["MainPID"] if pid != "0"]
    if not main:
        return None
    cgroup = "".join(properties["ControlGroup"])
    members = [_text(host, f"{root}{cgroup}/cgroup.procs") for root in CGROUPS if cgroup]
    for pid in dict.fromkeys([*main, *" ".join(members).split()]):
        args = from_process(_text(host, f"/proc/{pid}/cmdline"), kind.program)
        if args is not None:
            entries = _text(host, f"/proc/{pid}/environ").split("\0")
            pairs = (entry.partition("=") for entry in entries if entry)
            environment = {name: value for name, _equal, value in pairs}
            return StartCommand(args, _counting(environment, kind), is_known=True)
    return None
