# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Programs of other vendors, each within its time, without a shell, and in an environment of its own.

nccl-tests writes all of its environment into its file.
"""

from __future__ import annotations

import typing as t

from ..._machine.host import Host
from ..._machine.limited import Programs
from ..tools.findings import ToolRun

ENV = "/usr/bin/env"
INHERITED = ("HOME", "LC_ALL", "LD_LIBRARY_PATH", "PATH")
MOST_OUTPUT = 1 << 20  # bytes


class Commands:
    """Runs programs with nothing of this process's environment but where programs and libraries are."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._programs = Programs(host)

    def run(
        self,
        argv: t.Sequence[str],
        seconds: float,
        environment: t.Optional[t.Mapping[str, str]] = None,
    ) -> ToolRun:
        """Run a program, which is killed after so many seconds, and return how it ended."""
        inherited = {
            name: value for name, value in self._host.environment().items() if name in INHERITED
        }
        variables = {**inherited, **(environment or {})}
        settings = [f"{name}={value}" for name, value in variables.items()]
        output, ended = self._programs.answer(
            [ENV, "-i", *settings, *argv], MOST_OUTPUT, seconds=seconds
        )
        return ToolRun(ended.rc, output.decode("utf-8", "replace"), problem=ended.problem)
