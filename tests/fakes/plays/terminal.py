# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A playbook on a terminal: what it shows at the end, and after each thing that was written."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import termios
from typing import Any

from tests.fakes.plays.plays import Play, Scene, read

STEERING = re.compile(r"\x1b\[(\d*)([A-Za-z])")


class Terminal:
    """What a terminal shows: as much of one as the display uses, and an error for the rest."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines = [""]
        self.row = 0
        self.column = 0

    def write(self, text: str) -> None:
        while text:
            if text[0] == "\x1b":
                found = STEERING.match(text) or re.match(r"\x1b\[[\d;]*(m)", text)
                assert found, text[:20]
                self._steer(found)
                text = text[found.end() :]
            else:
                self._put(text[0])
                text = text[1:]

    def _steer(self, found: re.Match[str]) -> None:
        if found[0].endswith("m"):
            return
        if found[2] == "A":
            self.row -= int(found[1] or 1)
        elif found[2] == "J":
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        else:
            raise AssertionError(found[0])

    def _put(self, one: str) -> None:
        if one == "\r":
            self.column = 0
        elif one == "\n" or self.column == self.columns:
            self.row += 1
            self.column = 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        if one not in "\r\n":
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + one + line[self.column + 1 :]
            self.column += 1


def on_terminal(
    play: Play, tasks: list[dict[str, Any]], *scenes: Scene, columns: int = 80, **given: Any
) -> tuple[list[str], list[list[str]]]:
    """Return the lines of a terminal at the end, and those after each thing that was written.

    Each scene is waited for: what is done once a line has these words.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = play.environment(TERM="xterm", **given.pop("settings", {}))
    terminal, frames, left = Terminal(columns), [], list(scenes)
    ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "preexec_fn": _own_terminal}
    try:
        with play.ended(play.command(tasks, **given), env=environment, **ends):
            os.close(theirs)
            while data := _read(ours):
                terminal.write(data)
                frames.append(list(terminal.lines))
                while left and any(left[0][0] in one for one in terminal.lines):
                    left.pop(0)[1]()
    finally:
        os.close(ours)
    assert not left, f"never seen: {left[0][0]!r} in {terminal.lines}"
    return terminal.lines, frames


def interrupt(play: Play) -> None:
    """Do what ^C does."""
    play.runs.send_signal(signal.SIGINT)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(terminal: int) -> str:
    data = b""
    try:
        data = read(terminal)
        while data and data[-1] >= 0x80 and data[-3:-2] != b"\xe2":  # in the middle of a character
            data += os.read(terminal, 1)
    except OSError:  # nobody writes any more
        pass
    return data.decode()
