# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""As many devices as a node has: what the one manager takes for them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.mps.settings import Settings
from gpu_plugin.tools.state import stat_fields
from nvsim import genuine
from nvsim.testing import client, start

from tests.fakes.daemon.running import kill
from tests.fakes.mps.mps_running import Mps
from tests.support.paths import FAKES
from tests.support.waiting import eventually

DEVICES = """
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
parts = [n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i) for gpu in gpus for i in range(7)]
answer([n.nvmlDeviceGetUUID(part) for part in parts])
"""


@pytest.fixture
def mps() -> Iterator[Mps]:
    program = genuine.mps_control()
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    made = Mps(start("a100-40", 8), program)
    yield made
    made.stop()
    made.sim.stop()


def resident(pid: int) -> float:
    """Return how many MiB of a process are in memory."""
    found = re.search(r"VmRSS:\s+([0-9]+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def processor(pid: int) -> float:
    """Return the seconds of processor that a process and the questions that it asked have taken."""
    return sum(map(int, stat_fields(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def share(mps: Mps, devices: list[str]) -> int:
    """Share devices as they are on a node; return the manager."""
    for device in devices:
        mps.write(device, Settings(2, root=str(mps.root)).to_json())
    pid = mps.manage("--interval", "10").pid
    for device in devices:
        mps.ready(device, seconds=120)
    return pid


def test_eight_gpus_within_40_mib(mps: Mps) -> None:
    pid = share(mps, [mps.uuid(gpu) for gpu in range(8)])
    time.sleep(3)
    print(f"8 devices: {resident(pid):.1f} MiB")
    assert resident(pid) < 40
    assert {mps.mode(gpu) for gpu in range(8)} == {3}
    assert mps.end(mps.managers[-1]) == 0
    assert {mps.mode(gpu) for gpu in range(8)} == {0}


def test_fifty_six_devices_within_64_mib(mps: Mps) -> None:
    for gpu in range(8):
        words = [sys.executable, FAKES / "daemon/mig_layout.py", str(gpu), *["1g.5gb"] * 7]
        subprocess.run(words, env=mps.sim.env, check=True)
    devices = client(mps.sim, DEVICES)
    pid = share(mps, devices)
    daemons = {mps.status(device)["daemon"] for device in devices}
    assert len(daemons) == 56
    begun, before = time.monotonic(), processor(pid)
    time.sleep(15)
    part = (processor(pid) - before) / (time.monotonic() - begun)
    print(f"56 devices: {resident(pid):.1f} MiB, {part:.2%} of a core at rest")
    assert resident(pid) < 64
    assert part < 0.05  # many times what was measured: other tests run beside it
    kill(mps.status(devices[7])["daemon"])
    eventually(lambda: mps.status(devices[7])["restarts"] == 1)
    mps.ready(devices[7], restarts=1)
    after = {mps.status(device)["daemon"] for device in devices}
    assert len(daemons - after) == 1  # one crash is one device's
    mps.managers[-1].send_signal(signal.SIGINT)
    assert mps.managers[-1].wait(60) == 0
    assert not [one for one in daemons | after if stat_fields(one)]
