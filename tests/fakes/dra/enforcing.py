# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An enforcement in a process of its own, as the DRA driver's, which a test drives and may kill.

MPS's manager is what the daemon's package has; the driver is simulated, the control program genuine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import helper_process

if TYPE_CHECKING:
    from gpu_plugin.dra.values import Enforcement
    from nvsim.testing import Sim

    from tests.fakes.mps.mps_running import Mps

MIB = 1 << 20


class Units:
    """Notes that a manager is asked for; the process that has it starts it."""

    def __init__(self, command: list[str], log: str) -> None:
        self._command, self._log = command, log

    def run(self) -> None:
        with open(self._log, "ab") as log:
            helper_process.start(
                self._command, stderr=log, start_new_session=True, ready=helper_process.executed
            )

    def close(self, manager: int) -> None:
        raise AssertionError("the manager outlives the driver")


class Process:
    """A process that has an enforcement. Words that fail raise RuntimeError with the error's text."""

    def __init__(self, options: dict[str, Any], env: dict[str, str]) -> None:
        self.process = helper_process.start(
            [sys.executable, __file__, json.dumps(options)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            ready=helper_process.executed,
        )

    def ask(self, verb: str, *shares: dict[str, Any] | str) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([verb, *shares]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def kill(self) -> None:
        self.process.kill()


class Enforcing(Process):
    """That of MPS, on a node with a manager."""

    def __init__(self, node: Mps, split: int = 10, patience: float | None = None) -> None:
        from tests.support.waiting import LIMIT  # this file is a program too, without the tests

        command = [sys.executable, "-m", "gpu_plugin", "mps", "run", "--settings", node.settings]
        command += ["--control", node.program, "--interval", "0.2", "--linger", "0.5"]
        options = {
            "folder": str(node.settings),
            "root": str(node.root),
            "command": [*map(str, command)],
            "log": str(node.log),
            "split": split,
            "patience": LIMIT if patience is None else patience,
        }
        path = f"{node.env['PYTHONPATH']}:{os.environ.get('PYTHONPATH', '')}"
        path_of_programs = f"{node.program.parent}:{os.environ['PATH']}"
        super().__init__(options, {**node.env, "PATH": path_of_programs, "PYTHONPATH": path})


class Limiting(Process):
    """That of cgroups. ``library`` is the folder of the driver's, ``kubelet`` the kubelet's."""

    def __init__(
        self, sim: Sim, cgroups: Path, library: Path | None = None, kubelet: Path = Path("/none")
    ) -> None:
        more = {"LD_LIBRARY_PATH": str(library)} if library else {}
        super().__init__({"cgroups": str(cgroups), "kubelet": str(kubelet)}, {**sim.env, **more})


def share(sim: Sim, claim: str = "c1", gpu: int = 0, **more: Any) -> dict[str, Any]:
    """Return a share as JSON."""
    uuid = sim.ctl("status")["gpus"][gpu]["uuid"]
    given = {"memory": 1000 * MIB, "cores": 0, **more}
    return {"claim": claim, "gpu_uuid": uuid, "minor": gpu, **given}


def _made(options: dict[str, Any]) -> Enforcement:
    from gpu_plugin.dra.enforcement.cgroup import Cgroup
    from gpu_plugin.dra.enforcement.mps import Mps
    from gpu_plugin.dra.users import Users

    if "cgroups" in options:
        return Cgroup(Path(options["cgroups"]), Users(Path(options["kubelet"])))
    units = Units(options["command"], options["log"])
    folder, split = Path(options["folder"]), options["split"]
    return Mps(folder, units, options["root"], split, patience=options["patience"])


def _serve(found: Enforcement) -> None:
    from gpu_plugin._shared._base.errors import NodeError
    from gpu_plugin.dra.values import Share

    for line in sys.stdin:
        verb, *given = json.loads(line)
        try:
            if verb in ("problem", "tick"):
                result = getattr(found, verb)(*given)
            else:
                result = getattr(found, verb)([Share(**one) for one in given])
            answer = {"result": asdict(result) if verb == "prepare" else result}
        except NodeError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(_made(json.loads(sys.argv[1])))
