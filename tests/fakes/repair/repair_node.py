# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node that repairs: the simulated driver with what it shows below /proc and /sys, and dictionaries for the rest.

As a program it answers calls of the module in a process that has the driver's library, and keeps the node's files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._generated.repair import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Status
from ansible_collections.gpu.node.plugins.module_utils._repair.capability import RepairCapability
from ansible_collections.gpu.node.plugins.module_utils._repair.machine import cases, observe_nvml
from nvsim.testing import Sim

from tests.fakes.library.fakes import FakeHost
from tests.support.waiting import LIMIT

DEFAULTS = {name: one["default"] for name, one in SPEC["argument_spec"].items()}
UPTIME = 10_000.0


class RepairNode(FakeHost):
    """The node of a simulated driver whose files lie below ``root``; ``told`` is what a test says of the rest."""

    def __init__(self, root: Path, told: dict[str, Any]) -> None:
        shown = (one for name in ("proc", "sys") for one in (root / name).rglob("*"))
        super().__init__(
            {f"/{one.relative_to(root)}": one.read_text() for one in shown if one.is_file()}
        )
        self.files["/proc/uptime"] = f"{UPTIME} 1.0\n"
        self.files |= {
            "/proc/sys/kernel/random/boot_id": told.get("boot", "boot-1"),
            **told["files"],
        }
        self.statuses["/sys/module/nvidia"] = Status(0o040755, 0, told.get("load", 1))
        units = "".join(f"{key}={value}\n" for key, value in told.get("fabric", {}).items())
        self.commands = {
            ("sh", "-c"): lambda words: Completed(
                0, told.get("log", "") if "journal" in words[2] else "", ""
            ),
            ("systemctl", "show"): units,
            ("systemd-detect-virt",): "none\n",
        }


def answer(host: RepairNode, params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Return what the module says, as Ansible has it run."""
    try:
        one = RepairCapability(host, {**DEFAULTS, **params})  # type: ignore[arg-type]
        plan = one.plan(state := one.observe())
        steps = plan.steps
        for step in () if check else steps:
            one.apply(step)
        if steps and not check:
            left = one.plan(state := one.observe())
            assert not left.steps, left.steps
        return {"changed": bool(steps), "warnings": plan.warnings, **one.result(state, plan)}
    except NodeError as error:
        return {"failed": True, "msg": str(error)}


class Node:
    """A simulated driver's node, as a test has it."""

    def __init__(self, sim: Sim) -> None:
        self.sim, self.told = sim, {"files": {}, "now": 1_800_000_000.0}

    def module(self, *, check: bool = False, **params: Any) -> dict[str, Any]:
        """Call the module."""
        words = [sys.executable, "-m", __name__, str(self.sim.root)]
        given = json.dumps({"told": self.told, "params": params, "check": check})
        done = subprocess.run(
            words,
            env=self.sim.env,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        self.told["files"] = found.pop("files")
        return found

    def logs(self, *messages: str, ago: float = 60.0) -> None:
        """Have the kernel log messages."""
        at = self.told["now"] - ago
        lines = [f"{at:.6f} node-1 kernel: {one}\n" for one in messages]
        self.told["log"] = "".join(reversed(lines)) + self.told.get("log", "")


def main() -> None:
    """Answer one call."""
    given = json.load(sys.stdin)
    told = given["told"]
    cases.read_clock = lambda: told["now"]
    observe_nvml.HUNG = told.get("hung", observe_nvml.HUNG)
    host = RepairNode(Path(sys.argv[1]), told)
    said = answer(host, given["params"], given["check"])
    kept = {
        path: text for path, text in host.files.items() if path.startswith("/var/lib/gpu-node/")
    }
    json.dump({**said, "files": kept}, sys.stdout)


if __name__ == "__main__":
    main()
