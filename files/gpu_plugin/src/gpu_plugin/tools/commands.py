# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Command lines of several commands, each of which loads what it needs when it is given."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from .._shared._base.errors import NodeError
from . import logs

Fill = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]
# A command's name, its help, what gives it its options, and what runs it; None: what gives the options says so.
Given = tuple[str, str, Fill, Run | None]


class Command(argparse.ArgumentParser):
    """A command that gets its options when it is given, since those of others need much loaded."""

    fill: Fill | None = None

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """As the parser does."""
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill(self)
        return super().parse_known_args(*args, **kwargs)


def parser(version: str, description: str, *given: Given) -> argparse.ArgumentParser:
    """Return the parser of a program, whose name is what its version begins with."""
    top = argparse.ArgumentParser(prog=version.split()[0], description=description)
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(required=True, metavar="COMMAND", parser_class=Command)
    for name, text, fill, command in given:
        found = commands.add_parser(name, help=text)
        found.fill = fill
        found.set_defaults(command=command)
    return top


def room(package: str, text: str) -> Given:
    """Return a command of a package's name, whose options, and what runs it, are in its file command."""

    def fill(parser: argparse.ArgumentParser) -> None:
        importlib.import_module(f"{package}.command").fill(parser)

    return package.rpartition(".")[2], text, fill, None


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command that is given. Returns the exit status."""
    logs.begin()
    try:
        options = parser.parse_args(arguments)
        return int(options.command(options))
    except NodeError as error:
        logs.error(str(error))
        return 1
