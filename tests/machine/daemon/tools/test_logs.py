# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon's words: a fact is a line, for people and for machines."""

from __future__ import annotations

import subprocess
import sys

from tests.support import helper_process


def test_a_log_that_nobody_reads_ends_nothing() -> None:
    """As journald does when it is restarted: the pipe is broken, within the handling of an error too."""
    code = (
        "import sys; from gpu_plugin.tools import logs; from gpu_plugin.tools.chores import Chore\n"
        "def fail(): raise OSError('no room')\n"
        "logs.begin()\n"
        "sys.stdin.read()\n"
        "for n in range(3):\n"
        "    logs.info('x' * 70000)\n"
        "    Chore('name', 'trouble', fail).run()\n"
        "print('went on')\n"
    )
    pipe, words = subprocess.PIPE, [sys.executable, "-c", code]
    with helper_process.start(
        words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, ready=helper_process.executed
    ) as process:
        assert process.stderr is not None
        process.stderr.close()
        told, _nothing = process.communicate("")
    assert (told, process.returncode) == ("went on\n", 0)
