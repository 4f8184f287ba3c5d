# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node that shares its GPUs by MPS, and clients of its daemons."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fakes.mps import mps_running
from tests.fakes.mps.mps_running import (
    DEFAULT,
    EXCLUSIVE_PROCESS,
    ROOTS_ALONE,
    ControlProgram,
    end_processes,
    unmount_below,
)
from tests.support.folder import elsewhere
from tests.support.waiting import LIMIT, eventually

__all__ = ["DEFAULT", "EXCLUSIVE_PROCESS"]
GPU = "nvidia.com/gpu"
# A machine that is busy is no daemon that hangs.
PERIODS = {"GPU_MPS_INTERVAL": "0.5", "GPU_MPS_PATIENCE": str(LIMIT)}
# Where a node keeps what it knows, so that nothing of a test stays with the machine that it runs on.
ELSEWHERE = (
    "mkdir -p /var/lib/gpu-node && mount -t tmpfs known /var/lib/gpu-node && "
    'mount -t tmpfs run /run && mkdir -p /run/gpu-node && cp -r "$0" /run/gpu-node/mps && "$@"'
)


class Shared:
    """A node whose daemon runs the manager itself, as in a container without systemd."""

    def __init__(self, node: Any, program: Path) -> None:
        self.node = node
        self.root = elsewhere(ROOTS_ALONE, "r-")
        self.settings: Path = node.folder / "run/mps"
        self._control = ControlProgram(node.folder / "bin", program)
        self.asked = self._control.asked
        self.env = {
            "PATH": f"{self._control.path.parent}:{os.environ['PATH']}",
            "MPS_ROOT": str(self.root),
        }

    def start(self, mps: str, more: str = "") -> None:
        sharing = f"sharing:\n  mps: {mps}\n" if mps else ""
        self.node.start_daemon(f"{more}\n{sharing}", "--mps-managers", "own", **self.env, **PERIODS)

    def start_again(self, mps: str) -> None:
        """Start the plugin that ended or was killed, and wait until the kubelet knows of it."""
        self.start(mps)
        eventually(lambda: self.node.status().get("pid") == self.node.daemon.pid)
        self.node.registered()

    def uuids(self) -> list[str]:
        return [one["uuid"] for one in self.node.sim.ctl("status")["gpus"]]

    def mode(self, gpu: int = 0) -> int:
        return int(self.node.sim.ctl("status")["gpus"][gpu]["compute_mode"])

    def state(self, device: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.root / f"{device}.json").read_text())
        except FileNotFoundError:
            return {"state": "", "pid": 0, "daemon": 0}
        return found

    def answer(self, device: str, command: str) -> str:
        """Return a control daemon's answer to root; it may take a few tries, as others ask too."""
        env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": self.state(device)["pipe"]}

        def ask() -> str:
            done = subprocess.run(
                [self._control.path],
                input=f"{command}\n",
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            return done.stdout

        return str(eventually(ask))

    def change(self, mps: str) -> None:
        self.node.config.write_text(f"sharing:\n  mps: {mps}\n")

    def check(self, config: Path) -> subprocess.CompletedProcess[str]:
        """Check a configuration; what is in this machine's own /run/gpu-node is out of sight."""
        words = ["unshare", "--mount", "sh", "-c", ELSEWHERE, self.settings]
        words += [sys.executable, "-m", "gpu_plugin", "check-config", "--node", config]
        env = {**os.environ, **self.node.env, **self.env}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False)

    def healthy(self, resource: str = GPU) -> int:
        with contextlib.suppress(KeyError):
            return list(self.node.health(resource).values()).count("Healthy")
        return 0

    def wait(self, resource: str, count: int) -> None:
        """Wait for so many devices; many processes have to start for that."""
        self.node.wait(resource, count)

    def left(self) -> list[str]:
        """Return which settings there are."""
        return sorted(path.name for path in self.settings.glob("*.settings.json"))

    def crash(self) -> None:
        """Kill plugin, manager and daemons, which leaves what they had mounted."""
        end_processes(self.root)

    def kill_all(self) -> None:
        """End all processes, and remove the daemons' folder."""
        self.crash()
        unmount_below(self.root)
        shutil.rmtree(self.root)


class Client(mps_running.Client):
    """A client that the manager has seen."""

    def __init__(self, shared: Shared, device: str) -> None:
        super().__init__(shared.state(device)["pipe"])
        eventually(lambda: shared.state(device).get("clients") == 1)
