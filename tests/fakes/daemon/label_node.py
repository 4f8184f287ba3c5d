# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node on which ``gpu-plugin mig-label`` runs, with what its GPUs show."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu_plugin._shared._mig.label import Request
from nvsim.testing import Sim

from tests.support import helper_process
from tests.support.waiting import LIMIT, eventually

THREES, SEVEN = {"3g.20gb": 2}, {"7g.40gb": 1}
DIGEST = "d" * 64
# What a GPU was like before is kept beside the test, since this machine is not to be changed.
BEGIN = """\
import os, sys
from gpu_plugin._shared._mig.machine import nvml
from gpu_plugin.boot import label
from gpu_plugin.cli import main
nvml.BEFORE = os.environ["BEFORE"]
label.PAUSES, label.TICK = (0.3, 0.3), 0.1
sys.exit(main(sys.argv[1:]))
"""


def entries(layout: dict[str, int], devices: Any = "all") -> list[dict[str, Any]]:
    return [{"devices": devices, "mig-enabled": True, "mig-devices": layout}]


LAYOUTS = {"threes": entries(THREES), "seven": entries(SEVEN), "first": entries(SEVEN, [0])}
LAYOUTS["off"] = [{"devices": "all", "mig-enabled": False}]


def scene(sim: Sim) -> list[Any]:
    """What stands where on each GPU."""
    return [
        sorted((gi["profile"], gi["start"], len(gi["cis"])) for gi in gpu["gis"])
        for gpu in sim.ctl("status")["gpus"]
    ]


def slices(sim: Sim) -> list[list[int]]:
    """How many memory slices the instances of each GPU have."""
    return [sorted(gi["size"] for gi in gpu["gis"]) for gpu in sim.ctl("status")["gpus"]]


class LabelNode:
    """The files of a node in a folder, and the service that looks at them."""

    def __init__(self, sim: Sim, folder: Path) -> None:
        self.sim, self.folder = sim, folder
        self.config, self.asked = folder / "mig.json", folder / "asked/asked.json"
        self.answer, self.chosen = folder / "answer.json", folder / "state/chosen"
        self.status = folder / "run/status.json"
        self.process: subprocess.Popen[str] | None = None
        self.asked.parent.mkdir()
        self.declare()

    def declare(self, selected: str = "", *, by_label: bool = True, **layouts: Any) -> None:
        config = {"version": "v1", "mig-configs": {**LAYOUTS, **layouts}}
        data = {"config": config, "selected": selected, "by_label": by_label}
        self.config.write_text(json.dumps(data))

    def ask(self, name: str) -> None:
        new = self.asked.with_suffix(".new")
        new.write_text(Request(name, DIGEST).dump())
        new.replace(self.asked)

    def start(self, *program: str) -> None:
        words = [*(program or ("-c", BEGIN, "mig-label")), "--config", str(self.config)]
        for name in ("asked", "answer", "chosen", "status"):
            words += [f"--{name}", str(getattr(self, name))]
        self.process = self._popen(words)

    def run(self) -> str:
        """Run to its end; returns the log."""
        self.start()
        assert self.process is not None
        log = self.process.communicate(timeout=LIMIT)[1]
        assert "Traceback" not in log
        assert self.process.returncode == 0
        return log

    def boot(self) -> str:
        """Do what gpu-mig.service does; returns the log."""
        words = ["-m", "gpu_plugin", "mig", "--config", str(self.config), "--wait", "5"]
        words += ["--status", str(self.status), "--lock", str(self.folder / "lock")]
        self.process = self._popen(
            [*words, "--chosen", str(self.chosen), "--pod-resources", "/none"]
        )
        return self.process.communicate(timeout=LIMIT)[1]

    def _popen(self, words: list[str]) -> subprocess.Popen[str]:
        env = {**self.sim.env, "BEFORE": str(self.folder / "before")}
        return helper_process.start(
            [sys.executable, *words],
            env=env,
            stderr=subprocess.PIPE,
            text=True,
            ready=helper_process.executed,
        )

    def tries(self) -> int:
        """How often the service has asked the driver for its GPUs since it began."""
        assert self.process is not None
        return self.sim.looks(self.process.pid)

    def ended(self) -> None:
        """Wait until there is nothing left to do."""
        assert self.process is not None
        assert self.process.wait(LIMIT) == 0

    def told(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            found: dict[str, Any] = json.loads(self.answer.read_text())
            return found
        return {"state": "", "reason": "", "asked": {}}

    def wait(self, name: str, state: str, reason: str = "") -> None:
        def there() -> bool:
            found = self.told()
            named = found["asked"].get("name") == name
            return named and found["state"] == state and reason in found["reason"]

        eventually(there)

    def stop(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None
