# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""As many devices as a node has: eight GPUs, or seven MIG devices on each of them."""

from __future__ import annotations

import subprocess
import sys

from gpu_plugin.model.mps.settings import Settings
from nvsim.testing import client

from tests.fakes.mps.mps_running import Mps
from tests.support.paths import FAKES

PRODUCT, GPUS, PARTS = "a100-40", 8, 7
DEVICES = f"""
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
parts = [n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i) for gpu in gpus for i in range({PARTS})]
answer([n.nvmlDeviceGetUUID(part) for part in parts])
"""


def divided(mps: Mps) -> list[str]:
    """Divide all GPUs into MIG devices; return these."""
    for gpu in range(GPUS):
        words = [sys.executable, FAKES / "daemon/mig_layout.py", str(gpu), *["1g.5gb"] * PARTS]
        subprocess.run(words, env=mps.sim.env, check=True)
    found: list[str] = client(mps.sim, DEVICES)
    return found


def share(mps: Mps, devices: list[str]) -> int:
    """Share devices as they are on a node; return the manager when all are ready."""
    for device in devices:
        mps.write(device, Settings(2, root=str(mps.root)).to_json())
    pid = mps.manage("--interval", 10).pid
    for device in devices:
        mps.ready(device)
    return pid
