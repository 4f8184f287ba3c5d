# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon, for which time passes as the simulated driver answers.

A GPU hangs for a second where a hundred other questions were answered meanwhile. By the machine's clock, a busy machine
would make healthy GPUs hang.
"""

from __future__ import annotations

import functools
import sys
import threading

from gpu_plugin.cli import main
from gpu_plugin.driver import nvml
from gpu_plugin.driver.asking import Asking
from nvsim.ctl import Client

TICK = 0.01  # seconds, for each answer


class AnswersClock:
    """A clock that goes on with each answer of the driver, and no faster than time."""

    def __init__(self) -> None:
        self._seconds = 0.0
        threading.Thread(target=self._run, name="clock", daemon=True).start()

    def __call__(self) -> float:
        return self._seconds

    def _run(self) -> None:
        client, pause = Client(), threading.Event()
        while not pause.wait(TICK):
            client.ask("waiting")
            self._seconds += TICK


if __name__ == "__main__":
    vars(nvml)["Asking"] = functools.partial(Asking, AnswersClock())
    sys.exit(main())
