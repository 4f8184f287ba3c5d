# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that is slow, hangs, or does not tell the truth."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from nvsim.testing import Sim, client

from tests.support import helper_process
from tests.support.waiting import eventually

ONE = """
import sys
import pynvml as n
n.nvmlInit()
print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(int(sys.argv[1]))))
"""


@pytest.mark.parametrize(
    ("verb", "how"),
    [
        ("hang", {"function": "nvmlDeviceGetUUID"}),
        ("delay", {"function": "*", "ms": 3_600_000}),
    ],
)
def test_a_gpu_that_does_not_answer_holds_up_no_other_until_it_answers_again(
    a100: Sim, verb: str, how: dict[str, Any]
) -> None:
    a100.ctl(verb, gpu="0", **how)
    first, second = (one["uuid"] for one in a100.ctl("status")["gpus"])
    words = [sys.executable, "-c", ONE]
    with helper_process.start(
        [*words, "0"],
        env=a100.env,
        stdout=subprocess.PIPE,
        text=True,
        ready=helper_process.executed,
    ) as slow:
        assert slow.stdout is not None
        eventually(lambda: first in str(a100.ctl("called")))
        quick = subprocess.run([*words, "1"], env=a100.env, capture_output=True, text=True)
        assert quick.stdout.strip() == second
        assert slow.poll() is None
        a100.ctl("clear-faults")
        assert slow.stdout.read().strip() == first


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
