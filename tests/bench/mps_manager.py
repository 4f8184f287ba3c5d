# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the manager of MPS daemons takes at rest for as many devices as a node has, against its budget."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

from gpu_plugin.tools.files import stat_fields
from nvsim import genuine
from nvsim.testing import start

from tests.fakes.mps import many
from tests.fakes.mps.mps_running import Mps

SETTLED, REST = 5, 60  # seconds
MEMORY, PROCESSOR = {1: 40.0, 8: 40.0, 56: 64.0}, 0.05  # MiB resident, and a part of one core


def resident(pid: int) -> tuple[float, float]:
    """Return how many MiB of a process are in memory, and how many in proportion to who shares them."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = dict(re.findall(r"^(Rss|Pss): +(\d+) kB$", text, re.MULTILINE))
    return int(sizes["Rss"]) / 1024, int(sizes["Pss"]) / 1024


def processor(pid: int) -> float:
    """Return the seconds of processor that a process and the questions that it asked have taken."""
    return sum(map(int, stat_fields(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def measure(count: int) -> bool:
    """Print what so many devices take. Returns whether that is within the budget."""
    mps = Mps(start(many.PRODUCT, min(count, many.GPUS)), genuine.mps_control())
    try:
        gpus = [mps.uuid(gpu) for gpu in range(min(count, many.GPUS))]
        devices = gpus if count <= many.GPUS else many.divided(mps)
        begun = time.monotonic()
        pid = many.share(mps, devices)
        ready = time.monotonic() - begun
        time.sleep(SETTLED)
        begun, before = time.monotonic(), processor(pid)
        time.sleep(REST)
        busy = (processor(pid) - before) / (time.monotonic() - begun)
        memory, proportional = resident(pid)
    finally:
        mps.stop()
    print(
        f"{count} devices: {memory:.1f} MiB resident, {memory / MEMORY[count]:.2f} of the budget of "
        f"{MEMORY[count]:.0f} MiB; {proportional:.1f} MiB proportional; {busy:.2%} of a core, "
        f"{busy / PROCESSOR:.2f} of the budget of {PROCESSOR:.0%}; all ready after {ready:.1f} s"
    )
    return memory <= MEMORY[count] and busy <= PROCESSOR


if __name__ == "__main__":
    found = [measure(count) for count in MEMORY]
    sys.exit(not all(found))
