# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Run the collection's modules against the simulated driver."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvsim.testing import Sim

PACKAGE = "ansible_collections.gpu.node.plugins.modules"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run_module(tmp_path: Path) -> Run:
    """Return a function that runs a module as ansible does and returns its answer."""

    def run(sim: Sim, name: str, *, check: bool = False, **args: Any) -> dict[str, Any]:
        path = tmp_path / "args.json"
        values = {**args, "_ansible_check_mode": check, "_ansible_remote_tmp": str(tmp_path)}
        path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": values}))
        done = subprocess.run(
            [sys.executable, "-m", f"{PACKAGE}.{name}", str(path)],
            env=sim.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return run
