# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A process's state in a file."""

from __future__ import annotations

import os
import signal

from gpu_plugin.tools.files import alive, started

from tests.support import helper_process

NOBODY = 2**22  # beyond the numbers of processes


def test_a_process_that_ended_and_one_that_has_its_number_are_told_apart() -> None:
    child = helper_process.start(["sleep", "60"], ready=helper_process.executed)
    began = started(child.pid)
    assert alive({"pid": child.pid, "began": began})
    assert not alive({"pid": child.pid})
    assert not alive({"pid": child.pid, "began": "1"})
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not alive({"pid": child.pid, "began": began})  # it waits for its parent only
    child.wait()
    for pid in (child.pid, NOBODY, 0, -1, True, "1", "self", None, 10**30):
        assert not alive({"pid": pid, "began": began})
    assert not alive({})
