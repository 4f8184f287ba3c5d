# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A short question to a program: its answer is bounded in time and in length."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

MOST_BYTES: Final = 64 * 1024  # a server has 60 clients at most, each is told in a line
CHUNK: Final = 4096


class Unanswered(Exception):
    """The program took too long, or told too much."""


@dataclass(frozen=True)
class Answer:
    """What a program told, and how it ended."""

    out: str
    err: str
    status: int


def ask(words: Sequence[str], text: str, env: Mapping[str, str], seconds: float) -> Answer:
    """Run a program with a text of at most a page on its standard input.

    Unanswered: it did not end within so many seconds, or told more than MOST_BYTES; it was killed.
    OSError: it can't be started.
    """
    process = subprocess.Popen(
        words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        try:
            with process.stdin as stream:
                stream.write(text.encode())
        except BrokenPipeError:
            pass  # it ended without reading; its status says why
        deadline = time.monotonic() + seconds
        try:
            out, err = _read((process.stdout, process.stderr), deadline)
            status = process.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired as error:
            raise Unanswered("it takes too long") from error
        finally:
            process.kill()
    return Answer(out.decode(errors="replace"), err.decode(errors="replace"), status)


def _read(streams: Sequence[IO[bytes]], deadline: float) -> list[bytes]:
    """Return all that the streams have, each to its end."""
    found = [bytearray() for _each in streams]
    with selectors.DefaultSelector() as selector:
        for stream, told in zip(streams, found, strict=True):
            selector.register(stream, selectors.EVENT_READ, told)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                raise Unanswered("it takes too long")
            for key, _events in ready:
                data = os.read(key.fd, CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                key.data.extend(data)
                if len(key.data) > MOST_BYTES:
                    raise Unanswered(f"it tells more than {MOST_BYTES} bytes")
    return [bytes(told) for told in found]
