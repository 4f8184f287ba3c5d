# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The parts of an archive, gathered in a folder: each has bounds of time and size, and one that fails ends nothing."""

from __future__ import annotations

import gzip
import os
import typing as t
import zlib

from ...._base.errors import NodeError
from ...._base.text import json_data
from ...._base.text.excerpt import Excerpt
from ...._base.text.shown import printable
from ...._machine.host import Host
from ...._machine.limited import Ended, Programs
from ...._node import gate
from ..state import FULL, NEVER, Missing, Part
from .facts import SmiAnswers

LOG_SECONDS, DCGM_SECONDS = 120.0, 120.0
MOST, MOST_ANSWER = 64 << 20, 8 << 20  # bytes of a log, and of any other answer
BUG_REPORT = "nvidia-bug-report.sh"
DCGM = {
    "dcgm-health.json": ("dcgmi", "health", "-g", "0", "-c", "-j"),
    "dcgm-diag.json": ("dcgmi", "diag", "-r", "1", "-j"),
}
KERNEL = "kernel.log"
# What load tests have shown, and what the gate held by that.
ACCEPTED = {"acceptance.json": gate.RECORD, "gate.json": gate.PATH}
TAIL = 300  # bytes of what a program says that are shown
Feed = t.Callable[[t.Callable[[bytes], None]], str]


class Parts:
    """What is gathered. ``folder`` is empty, and root's alone."""

    def __init__(self, programs: Programs, folder: str) -> None:
        self._programs, self.folder = programs, folder
        self.contents: t.List[Part] = []
        self.missing: t.List[Missing] = []

    def kernel_log(self, since: float) -> None:
        """Gather the kernel's log of all boots since a time, unfiltered; without a journal that of this boot."""
        begin = f"--since=@{int(since)}"
        journal = ["journalctl", "--no-pager", "-q", "-o", "short-iso-precise", begin]
        commands = {
            "journalctl": [*journal, "_TRANSPORT=kernel"],
            "dmesg": ["dmesg", "--time-format=iso"],
        }
        problems = []
        for name, argv in commands.items():
            problem = self._log(argv)
            if not problem:
                return
            problems.append(f"{name}: {problem}")
        self.missing.append(Missing(KERNEL, "; ".join(problems)))

    def smi(self, smi_answers: SmiAnswers) -> None:
        """Gather what nvidia-smi has answered, also where that is why it does not."""
        for name in {**smi_answers.answers, **smi_answers.problems}:
            data, problem = smi_answers.answers.get(name, b""), smi_answers.problems.get(name, "")
            if data:
                problem = self._keep(name, data, problem)
            elif not problem:
                problem = "it answered nothing"
            if problem:
                self.missing.append(Missing(name, problem))

    def dcgm(self) -> None:
        """Gather what DCGM's health watches have seen, and its quick checks of the deployment."""
        for name, argv in DCGM.items():
            output, ended = self._programs.answer(argv, MOST_ANSWER, seconds=DCGM_SECONDS)
            problem = "" if ended.rc == 0 else _problem(ended, output)
            try:
                json_data.loads(output.decode("utf-8", "replace"))
                problem = self._keep(name, output, problem)
            except ValueError as error:
                problem = problem or f"it answered no JSON: {error}"
            if problem:
                self.missing.append(Missing(name, problem))

    def acceptance(self, host: Host) -> None:
        """Gather the records of load tests, where there are any."""
        for name, path in ACCEPTED.items():
            try:
                data = host.read_bytes(path)
                problem = "" if data is None else self._keep(name, data, "")
            except NodeError as error:
                problem = str(error)
            if problem:
                self.missing.append(Missing(name, problem))

    def bug_report(self, how: str, seconds: float) -> None:
        """Gather NVIDIA's bug report: in safe mode first, and in full only where that did not hang."""
        if how == NEVER:
            return
        safe, full = "nvidia-bug-report-safe.log.gz", "nvidia-bug-report.log.gz"
        problem = self._bug_report(safe, ["--safe-mode"], seconds)
        if how == FULL and problem:
            self.missing.append(Missing(full, f"it is not tried after safe mode: {problem}"))
        elif how == FULL:
            self._bug_report(full, ["--extra-system-data"], seconds)

    def _bug_report(self, name: str, options: t.Sequence[str], seconds: float) -> str:
        """Gather a bug report; return why it did not end by itself."""
        raw = f"{self.folder}/.raw"
        argv = [BUG_REPORT, "--output-file", raw, *options]
        output, ended = self._programs.answer(argv, MOST_ANSWER, seconds=seconds)
        paths = [path for path in (f"{raw}.gz", raw) if os.path.isfile(path)]
        problem = "" if ended.rc == 0 else _problem(ended, output)
        if paths:
            problem = self._write(name, lambda take: _unpack(paths[0], take), MOST, problem)
        elif not problem:
            problem = "it wrote nothing"
        if problem:
            self.missing.append(Missing(name, problem))
        for path in paths:
            os.unlink(path)
        return ended.problem

    def _log(self, argv: t.Sequence[str]) -> str:
        """Gather the kernel's log as a program has it; return why there is nothing."""
        ends: t.List[Ended] = []

        def feed(take: t.Callable[[bytes], None]) -> str:
            ends.append(self._programs.run(argv, take, seconds=LOG_SECONDS))
            return ends[0].problem

        problem = self._write(KERNEL, feed, MOST)
        if problem:
            return problem
        if self.contents[-1].size and not ends[0].rc:  # what was cut short is of use too
            return ""
        self.contents.pop()
        path = f"{self.folder}/{KERNEL}"
        with open(path, "rb") as file:
            output = file.read(TAIL)
        os.unlink(path)
        return _problem(ends[0], output) if ends[0].rc != 0 else "it has nothing of that time"

    def _keep(self, name: str, data: bytes, note: str) -> str:
        """Write a part that is there as a whole; return why that failed."""

        def feed(take: t.Callable[[bytes], None]) -> str:
            take(data)
            return ""

        return self._write(name, feed, MOST_ANSWER, note)

    def _write(self, name: str, feed: Feed, most: int, note: str = "") -> str:
        """Write a part as it comes, masked, and packed where its name ends so; return why that failed."""
        path = f"{self.folder}/{name}"
        try:
            with open(path, "wb") as file:
                if name.endswith(".gz"):
                    with gzip.GzipFile("", "wb", fileobj=file) as packed:
                        note = _fed(packed.write, feed, most, note)
                else:
                    note = _fed(file.write, feed, most, note)
        except OSError as error:
            if os.path.exists(path):
                os.unlink(path)
            return error.strerror or str(error)
        self.contents.append(Part(name, os.stat(path).st_size, note))
        return ""


def _fed(write: t.Callable[[bytes], t.Any], feed: Feed, most: int, note: str) -> str:
    excerpt = Excerpt(write, most)
    notes = [note, feed(excerpt.take)]
    excerpt.close()
    notes.append(f"{excerpt.left_out} bytes are left out" if excerpt.left_out else "")
    return "; ".join(filter(None, notes))


def _unpack(path: str, take: t.Callable[[bytes], None]) -> str:
    """Hand on a bug report, which is several packed texts behind each other; the last may not be whole."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as stream:
        try:
            while True:
                data = stream.read1(1 << 16)
                if not data:
                    return ""
                take(data)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return "its end is cut off"


def _problem(ended: Ended, output: bytes) -> str:
    text = printable(" ".join(output[-TAIL:].decode("utf-8", "replace").split()))
    return ": ".join(filter(None, [ended.problem or f"it ended with status {ended.rc}", text]))
