# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node that shares its GPUs by MPS, and clients of its daemons."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.fakes.mps import mps_running
from tests.fakes.mps.mps_running import ROOTS_ALONE, unmount_all
from tests.support.waiting import eventually

GPU = "nvidia.com/gpu"
DEFAULT, EXCLUSIVE_PROCESS = 0, 3
PATIENCE = 40.0
ELSEWHERE = (
    'mount -t tmpfs run /run && mkdir -p /run/gpu-node && cp -r "$0" /run/gpu-node/mps && "$@"'
)


class Shared:
    """A node whose daemon runs the manager itself, as in a container without systemd."""

    def __init__(self, node: Any, program: Path) -> None:
        self.node = node
        self.root = Path(tempfile.mkdtemp(prefix="r-", dir=ROOTS_ALONE))
        self.settings: Path = node.folder / "run/mps"
        self.programs = node.folder / "bin"
        self.programs.mkdir()
        (self.programs / "nvidia-cuda-mps-control").symlink_to(program)
        self.env = {"PATH": f"{self.programs}:{os.environ['PATH']}", "MPS_ROOT": str(self.root)}

    def start(self, mps: str, more: str = "") -> None:
        sharing = f"sharing:\n  mps: {mps}\n" if mps else ""
        self.node.start_daemon(f"{more}\n{sharing}", "--mps-managers", "own", **self.env)

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

    def asked(self, device: str, command: str) -> str:
        """Return a control daemon's answer to root; it may take a few tries, as others ask too."""
        env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": self.state(device)["pipe"]}
        words = [self.programs / "nvidia-cuda-mps-control"]

        def ask() -> str:
            done = subprocess.run(
                words, input=f"{command}\n", env=env, capture_output=True, text=True, check=False
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
        self.node.ask("wait", resource=resource, count=count, timeout=PATIENCE)

    def unhealthy(self, seconds: float = PATIENCE) -> None:
        eventually(lambda: self.healthy() == 0)

    def left(self) -> list[str]:
        """Return which settings there are."""
        return sorted(path.name for path in self.settings.glob("*.settings.json"))

    def kill_daemons(self) -> None:
        """Kill the manager first, which would start the others again."""
        for key in ("pid", "daemon"):
            for path in self.root.glob("*.json"):
                with contextlib.suppress(ProcessLookupError, ValueError, OSError):
                    if number := json.loads(path.read_text())[key]:
                        os.killpg(number, signal.SIGKILL)

    def kill_all(self) -> None:
        self.kill_daemons()
        unmount_all(self.root)
        shutil.rmtree(self.root, ignore_errors=True)


class Client(mps_running.Client):
    """A client that the manager has seen."""

    def __init__(self, shared: Shared, device: str) -> None:
        super().__init__(shared.state(device)["pipe"])
        eventually(lambda: shared.state(device).get("clients") == 1)
