# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Command lines of several commands, each of which loads what it needs on its use."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .._shared._base.errors import NodeError
from . import logs

Fill = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]
# A command's name, its help, the function that adds its options, and the one that runs it, None if the former sets it.
Specification = tuple[str, str, Fill, Run | None]
# An option, its variable in the environment, the name of its value, its default, and its help.
Text = tuple[str, str, str, str, str]


class Command(argparse.ArgumentParser):
    """A command that gets its options on its use, since those of all commands would take long to load."""

    fill: Fill | None = None

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """As the parser does."""
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill(self)
        return super().parse_known_args(*args, **kwargs)


def parser(
    version: str, description: str, *specifications: Specification
) -> argparse.ArgumentParser:
    """Return the parser of a program, whose name is the first word of its version."""
    top = argparse.ArgumentParser(prog=version.split()[0], description=description)
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(required=True, metavar="COMMAND", parser_class=Command)
    for name, text, fill, command in specifications:
        subparser = commands.add_parser(name, help=text)
        subparser.fill = fill
        subparser.set_defaults(command=command)
    return top


def package_command(package: str, text: str) -> Specification:
    """Return a command named after a package, whose module ``command`` has its options and runs it."""

    def fill(parser: argparse.ArgumentParser) -> None:
        importlib.import_module(f"{package}.command").fill(parser)

    return package.rpartition(".")[2], text, fill, None


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command of the arguments. Return the exit status."""
    logs.begin()
    try:
        options = parser.parse_args(arguments)
        status = int(options.command(options))
        sys.stdout.flush()
    except NodeError as error:
        logs.error(str(error))
        return 1
    except BrokenPipeError:
        if not _is_output_closed():
            raise
        # Python flushes when it exits, see https://docs.python.org/3/library/signal.html#note-on-sigpipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _is_output_closed() -> bool:
    """Return whether the reader of the standard output, such as head, has ended."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return True
    return False


def texts(command: argparse.ArgumentParser, options: Iterable[Text]) -> None:
    """Add options that take a text."""
    for name, variable, word, default, text in options:
        command.add_argument(
            f"--{name}",
            default=os.environ.get(variable) or default,
            metavar=word,
            help=f"{text} (environment: {variable}{f'; default: {default}' if default else ''})",
        )


def host_root(command: argparse.ArgumentParser, purpose: str) -> None:
    """Add the option for where files of the host are seen."""
    command.add_argument(
        "--host-root",
        type=Path,
        default=os.environ.get("GPU_PLUGIN_HOST_ROOT") or "/",
        metavar="DIR",
        help=f"where the host's {purpose} seen (environment: GPU_PLUGIN_HOST_ROOT)",
    )


def mps_managers(command: argparse.ArgumentParser) -> None:
    """Add the option for who runs the manager of MPS daemons."""
    command.add_argument(
        "--mps-managers",
        choices=("systemd", "own"),
        default="",
        help="who runs the manager of MPS daemons (default: systemd, where it is the init)",
    )


def restart() -> NoReturn:
    """Replace this process by a new one of the device plugin with the same command line."""
    os.execv(sys.executable, [sys.executable, "-m", "gpu_plugin", *sys.argv[1:]])
