# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Run the collection's modules against the simulated driver."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nvsim import genuine
from nvsim.testing import Sim, start

from tests.support import helper_process
from tests.support.waiting import LIMIT

PACKAGE = "ansible_collections.gpu.node.plugins.modules"
# What a GPU was like before is kept beside the test, since this machine is not to be changed.
# What is remembered, and the lock, are the test's own.
BEGIN = f"""\
import os, runpy, sys
before = sys.argv.pop(1)
folder = os.path.dirname(before)
from {PACKAGE.removesuffix("s")}_utils._node import quarantine
quarantine.PATH = folder + "/quarantine.json"
from {PACKAGE.removesuffix("s")}_utils._node.machine import quarantine as locked
locked.LOCK = folder + "/quarantine.lock"
from {PACKAGE.removesuffix("s")}_utils._machine import locks, own_files
locks.NODE = folder + "/node.lock"
own_files.RECORDS = folder + "/records"
from {PACKAGE.removesuffix("s")}_utils._base.services import mig
from {PACKAGE.removesuffix("s")}_utils._cdi import capability as cdi
from {PACKAGE.removesuffix("s")}_utils._mig.machine import nvml
nvml.BEFORE = before
from {PACKAGE.removesuffix("s")}_utils._node.users.machine import services
services.RECORD = folder + "/stopped-services.json"
from {PACKAGE.removesuffix("s")}_utils._settings import capability as settings
settings.PATH = folder + "/settings.json"
settings.LOCK = folder + "/settings.lock"
mig.LOCK = cdi.LOCK = folder + "/mig.lock"
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=False)
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def a100() -> Iterator[Sim]:
    with start("a100-40", 2) as sim:
        yield sim


@pytest.fixture(scope="session")
def nvidia_smi() -> Path:
    """Return the genuine nvidia-smi."""
    return genuine.nvidia_smi()


@pytest.fixture
def start_module(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a module as ansible does; none outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(sim: Sim, name: str, *, check: bool = False, **args: Any) -> subprocess.Popen[str]:
        path = tmp_path / f"{len(started)}.json"
        mine = (
            {"boot": False} if name in ("cdi", "mig", "settings") else {}
        )  # this machine is not to be changed
        told = {"_ansible_check_mode": check, "_ansible_remote_tmp": str(tmp_path)}
        told |= {"_ansible_diff": True}
        path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**mine, **args, **told}}))
        process = helper_process.start(
            [sys.executable, "-c", BEGIN, str(tmp_path / "before"), f"{PACKAGE}.{name}", str(path)],
            env=sim.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            ready=helper_process.executed,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def run_module(start_module: Start) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a module and returns its answer."""

    def run(sim: Sim, name: str, *, check: bool = False, **args: Any) -> dict[str, Any]:
        out, err = start_module(sim, name, check=check, **args).communicate(timeout=LIMIT)
        assert out, err
        answer: dict[str, Any] = json.loads(out)
        return answer

    return run
