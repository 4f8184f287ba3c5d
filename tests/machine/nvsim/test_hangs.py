# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that is slow, hangs, or does not tell the truth."""

from __future__ import annotations

import subprocess
import sys
import time

from nvsim.testing import Sim, client

NAMES = """
n.nvmlInit()
begun = time.monotonic()
names = [n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in (1, 0)]
answer([names, time.monotonic() - begun])
"""


def test_a_function_that_hangs_answers_when_that_is_over(a100: Sim) -> None:
    a100.ctl("hang", function="nvmlDeviceGetUUID", gpu="0")
    words = [sys.executable, "-c", "import pynvml as n; n.nvmlInit(); print(flush=True)\n"]
    words[-1] += "print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(0)))"
    with subprocess.Popen(words, env=a100.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        assert process.poll() is None
        a100.ctl("clear-faults")
        assert process.stdout.read().startswith("GPU-")


def test_a_delay_of_all_functions_of_one_gpu(a100: Sim) -> None:
    a100.ctl("delay", function="*", gpu="0", ms=400)
    answer = client(a100, NAMES)
    names, slow = answer[0], answer[1]
    assert names == [one["uuid"] for one in reversed(a100.ctl("status")["gpus"])]
    assert slow >= 0.4


def test_a_lie_is_told_until_it_is_taken_back(a100: Sim) -> None:
    a100.ctl("lie", function="nvmlDeviceGetCount_v2", at=0, data="09000000")
    a100.ctl("lie", function="nvmlDeviceGetUUID", gpu="1", at=1, data=b"GPU-other\0".hex())
    ask = """
    n.nvmlInit()
    answer([n.nvmlDeviceGetCount()]
           + [n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in (0, 1)])
    """
    first, second = (one["uuid"] for one in a100.ctl("status")["gpus"])
    assert client(a100, ask) == [9, first, "GPU-other"]
    a100.ctl("clear-faults")
    assert client(a100, ask) == [2, first, second]


def test_a_gpu_out_of_mig_mode_can_have_no_mig_devices(a100: Sim) -> None:
    """NVIDIA's device plugin asks each of so many for its handle, and ends where that is refused."""
    ask = """
    n.nvmlInit()
    h = [n.nvmlDeviceGetHandleByIndex(i) for i in (0, 1)]
    n.nvmlDeviceSetMigMode(h[1], 1)
    answer([n.nvmlDeviceGetMaxMigDeviceCount(one) for one in h])
    """
    assert client(a100, ask) == [0, 7]
