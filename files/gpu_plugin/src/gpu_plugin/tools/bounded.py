# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Reads files that others write without waiting and up to a size, and answers of programs up to a time too."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from .._shared._machine.host import Completed

# A configuration has a limit of its own; what else is read is never this long.
LONGEST: Final = 1 << 20
LONGEST_ANSWER: Final = 1 << 16
CHUNK: Final = 4096


class TooLong(OSError):
    """A file is longer than it may be."""


def read(path: Path, longest: int = LONGEST) -> bytes:
    """Return a file's bytes.

    A pipe that nobody writes to is empty, and a device without an end too long.

    Raises:
        OSError: if it can't be read.
        TooLong: if it has more than ``longest`` bytes.
    """
    with open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as stream:
        data: bytes = stream.read(longest + 1) or b""
    if len(data) > longest:
        raise TooLong(errno.EFBIG, f"it is longer than {longest >> 10} KiB", os.fspath(path))
    return data


def read_text(path: Path, longest: int = LONGEST) -> str:
    """Return a file's text.

    Raises:
        OSError: if it can't be read, or is longer than ``longest`` bytes.
        UnicodeDecodeError: if it is not UTF-8.
    """
    return read(path, longest).decode("utf-8")


class Lines(NamedTuple):
    """The whole lines at the beginning of a file, and whether it has more than is read."""

    lines: list[str]
    is_cut: bool


def peek(path: Path, end: str = "\n") -> str:
    """Return a file's text up to LONGEST bytes; nothing if it can't be read, as of a process that ended.

    Of a longer file the last line is left out: cut at the bound it would be taken for a shorter one. ``end`` is what
    ends a line, which is a NUL in some files of /proc.
    """
    return _peek(path, end)[0]


def peek_lines(path: Path, end: str = "\n") -> Lines:
    """Return the lines of the text that peek() returns, and whether the file has more."""
    text, is_cut = _peek(path, end)
    lines = text.split(end)
    return Lines(lines if lines[-1] else lines[:-1], is_cut)


def _peek(path: Path, end: str) -> tuple[str, bool]:
    try:
        with path.open("rb") as stream:
            data = stream.read(LONGEST + 1)
    except OSError:
        return "", False
    is_cut = len(data) > LONGEST
    if is_cut:
        data = data[: data.rfind(end.encode(), 0, LONGEST) + 1]
    return data.decode(errors="replace"), is_cut


def run(argv: Sequence[str], text: str, env: Mapping[str, str], seconds: float) -> Completed:
    """Run a program with a text of at most a page on its standard input, and these variables alone.

    If it does not end within so many seconds, or prints more than LONGEST_ANSWER, it is killed, with the status 124.

    Raises:
        OSError: if it can't be started.
    """
    pipe = subprocess.PIPE
    deadline = time.monotonic() + seconds
    with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin as stream:
                stream.write(text.encode())  # one that does not read it says why by its status
            answers = _read_all((process.stdout, process.stderr), deadline)
            status = process.wait(max(deadline - time.monotonic(), 0.1))
        except TooLong as error:
            return Completed(124, "", error.strerror or "")
        except (TimeoutError, subprocess.TimeoutExpired):
            return Completed(124, "", "it takes too long")
        finally:
            process.kill()
    return Completed(status, *(answer.decode(errors="replace") for answer in answers))


def _read_all(streams: Sequence[IO[bytes]], deadline: float) -> list[bytes]:
    """Return all that streams have, each to its end."""
    buffers = [bytearray() for _each in streams]
    with selectors.DefaultSelector() as selector:
        for stream, answer in zip(streams, buffers, strict=True):
            selector.register(stream, selectors.EVENT_READ, answer)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            for key, _events in ready:
                data = os.read(key.fd, CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                key.data.extend(data)
                if len(key.data) > LONGEST_ANSWER:
                    raise TooLong(errno.EFBIG, f"it tells more than {LONGEST_ANSWER} bytes")
    return [bytes(answer) for answer in buffers]
