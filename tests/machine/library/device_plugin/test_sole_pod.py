# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who holds the lock of a node's device plugin, asked of the kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine import status as sole
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host

from tests.support import helper_process
from tests.support.paths import REPOSITORY

HOLD = """
import sys
from pathlib import Path
from gpu_plugin.tools import instance_lock
environment = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"} if sys.argv[2] == "pod" else {}
with instance_lock.hold(Path(sys.argv[1]), environment):
    print("held", flush=True)
    sys.stdin.read()
"""
DAEMON = REPOSITORY / "files/gpu_plugin/src"


@contextmanager
def held(folder: Path, kind: str) -> Iterator[None]:
    """Hold a folder's lock in the daemon's own way, in a process of its own."""
    words = [sys.executable, "-c", HOLD, str(folder), kind]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with helper_process.start(
        words,
        env={"PYTHONPATH": str(DAEMON)},
        text=True,
        **pipes,
        ready=helper_process.printed("held"),
    ) as process:
        yield
        process.communicate()


def test_a_pod_is_known_while_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sole, "LOCK", str(tmp_path / "device-plugin.lock"))
    assert sole.pod(Host()) == ""
    with held(tmp_path, "pod"):
        assert sole.pod(Host()).startswith("the pod ")
    assert sole.pod(Host()) == ""  # the file stays, and nobody holds it


def test_the_services_own_lock_is_no_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sole, "LOCK", str(tmp_path / "device-plugin.lock"))
    with held(tmp_path, "service"):
        assert sole.pod(Host()) == ""
