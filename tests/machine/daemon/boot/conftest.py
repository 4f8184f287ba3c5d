# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What systemd does at boot, and a kubelet that says who has which device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import PATH
from standin_kubelet.devices import Ledger
from standin_kubelet.pods import PodResources

from tests.support import helper_process
from tests.support.waiting import LIMIT

if TYPE_CHECKING:
    from nvsim.testing import Sim

Process = subprocess.Popen[str]
# A namespace of mounts with nothing in /var/lib but this.
ASIDE = """\
mount -t tmpfs none /var/lib
mkdir "$(dirname "$1")"
cp "$0" "$1"
shift
exec "$@"
"""


class Commands:
    """Processes of ``gpu-plugin``, none of which outlives the test."""

    def __init__(self) -> None:
        self.started: list[Process] = []

    def begin(self, sim: Sim, *words: object, aside: Path | None = None, **env: str) -> Process:
        """Start one, for which ``aside`` is what the node has of GPUs in quarantine."""
        command = [sys.executable, "-m", "gpu_plugin", *map(str, words)]
        if aside:
            private = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", ASIDE]
            command = [*private, str(aside), PATH, *command]
        environment = {**sim.env, **env}
        self.started.append(
            helper_process.start(
                command,
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
                ready=helper_process.executed,
            )
        )
        return self.started[-1]

    def end(self, process: Process) -> tuple[int, str]:
        """Wait for its end; return its exit status and its log."""
        _out, told = process.communicate(timeout=LIMIT)
        assert "Traceback" not in told
        return process.returncode, told


@pytest.fixture
def commands() -> Iterator[Commands]:
    """Start commands."""
    made = Commands()
    yield made
    for one in made.started:
        one.close()


class Kubelet:
    """``ledger`` holds what ``socket`` answers, once ``service`` is started."""

    def __init__(self, folder: Path) -> None:
        self.socket, self.ledger = folder / "pods.sock", Ledger(folder / "checkpoint")
        self.service = PodResources(self.socket, self.ledger)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    """A kubelet that is not started yet."""
    made = Kubelet(tmp_path)
    yield made
    made.service.stop()
