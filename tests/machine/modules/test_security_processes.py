# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A tenant chooses the name of his process: it steers no terminal, and stops no module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from nvsim.testing import PROJECT, Sim

from tests.machine.modules.mig_scene import Run, config
from tests.support import helper_process

NAMES = [b"\x1b]0;owned\x07\n\xe2\x80\xaegnp", b"\xff\xfe\x1b[2J"]


@pytest.fixture
def named(a100: Sim) -> Iterator[Callable[[bytes], int]]:
    """Return a function that has a process of some name on GPU 0, and returns its number."""
    started = []

    def start(name: bytes) -> int:
        words = ["-m", "nvsim.ctl", "--socket", str(a100.socket), "hold", "0"]
        process = helper_process.start(
            [name, *words],
            executable=sys.executable,
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            stdout=subprocess.PIPE,
            ready=helper_process.printed(),
        )
        started.append(process)
        return process.pid

    yield start
    for process in started:
        process.close()


@pytest.mark.attack("terminal-escapes")
@pytest.mark.parametrize("name", NAMES)
def test_names_of_processes_steer_no_terminal(
    a100: Sim, run_module: Run, named: Callable[[bytes], int], name: bytes
) -> None:
    pid = named(name)
    info = run_module(a100, "gpu_info")["gpu_info"]
    (found,) = info["gpus"][0]["processes"]
    assert found["pid"] == pid
    assert found["name"].isprintable()
    assert r"\x1b" in found["name"]
    refused = run_module(a100, "mig", config=config({"1g.5gb": 2}, 0))
    assert refused["failed"]
    assert f"process {pid} ({found['name']})" in refused["msg"]
    assert "\x1b" not in json.dumps(refused, ensure_ascii=False)
