# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the software of a whole node takes at rest, 8 GPUs being shared by MPS, against its budget."""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nvsim import genuine, testing

from tests.fakes.daemon.running import Node
from tests.fakes.daemon.scraping import Metrics
from tests.fakes.kubernetes.standin_api import NODE, Api
from tests.fakes.mps.mps_sharing import GPU, Shared
from tests.support.waiting import eventually

GPUS, SHARES = 8, 4
MPS = f"{{resources: [{{name: gpu, replicas: {SHARES}}}]}}"
SETTLED, REST = 10, 60  # seconds
MEMORY, PROCESSOR = 150.0, 0.005  # MiB resident and a part of one core, for all of ours together
# By what stands in a command line. NVIDIA's control daemons are no part of the budget.
PROGRAMS = {
    "plugin": re.compile(r"gpu_plugin run "),
    "labels": re.compile(r"gpu_plugin labels "),
    "MPS manager": re.compile(r"gpu_plugin mps run"),
    "NVIDIA's MPS control daemons": re.compile(r"nvidia-cuda-mps-control"),
}


@dataclass
class Use:
    """What processes take: their number, MiB, and seconds that they have had a processor for."""

    processes: int = 0
    resident: float = 0.0
    proportional: float = 0.0
    busy: float = 0.0

    def add(self, proc: Path) -> None:
        """Count a process in."""
        rollup = (proc / "smaps_rollup").read_text()
        sizes = dict(re.findall(r"^(Rss|Pss): +(\d+) kB$", rollup, re.MULTILINE))
        stats = [(task / "schedstat").read_text() for task in (proc / "task").iterdir()]
        self.processes += 1
        self.resident += int(sizes["Rss"]) / 1024
        self.proportional += int(sizes["Pss"]) / 1024
        self.busy += sum(int(one.split()[0]) for one in stats) / 1e9


def uses(marker: str) -> dict[str, Use]:
    """Return what each program takes, of the processes with such a variable's value."""
    found = {name: Use() for name in PROGRAMS}
    for proc in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            name = next((name for name, one in PROGRAMS.items() if one.search(command)), "")
            if name and marker.encode() in (proc / "environ").read_bytes():
                found[name].add(proc)
    return found


@contextlib.contextmanager
def node_software() -> Iterator[str]:
    """A node in service with all that it runs; yields what all processes have in their environment."""
    node = Node(Path(tempfile.mkdtemp(prefix="gp-")), testing.start("h100-80", GPUS))
    shared = Shared(node, genuine.mps_control())
    api = Api(node.folder)
    words: list[object] = ["--config", node.config, "--host-root", node.sim.root]
    words += ["--node-name", NODE, "--kubeconfig", api.kubeconfig]
    try:
        node.start_kubelet()
        node.start_daemon(
            f"sharing: {{mps: {MPS}}}",
            *("--mps-managers", "own", "--rescan", "5"),
            *("--metrics-address", Metrics().address),
            **shared.env,
        )
        shared.wait(GPU, GPUS * SHARES)
        status = node.folder / "labels.json"
        labels = node.python("-m", "gpu_plugin", "labels", *words, "--status-file", status)
        eventually(lambda: "nvidia.com/gpu.count" in api.own())
        yield f"NVSIM_SOCKET={node.sim.socket}"
        labels.kill()
    finally:
        api.stop()
        node.stop()
        shared.kill_all()
        node.sim.stop()


def measure() -> dict[str, Use]:
    """Return what each program takes at rest, the processor's part in ``busy``."""
    with node_software() as marker:
        time.sleep(SETTLED)
        before, begun = uses(marker), time.monotonic()
        time.sleep(REST)
        after, taken = uses(marker), time.monotonic() - begun
    for name, one in after.items():
        one.busy = (one.busy - before[name].busy) / taken
    return after


def show(found: dict[str, Use]) -> None:
    """Print each program, and the sum of ours with its ratio to the budget."""
    print(f"a node with {GPUS} GPUs in {SHARES} shares of MPS each, at rest for {REST} s:")
    for name, one in found.items():
        print(
            f"  {name} ({one.processes}): {one.resident:.1f} MiB resident, "
            f"{one.proportional:.1f} MiB proportional, {one.busy:.2%} of a core"
        )
    ours = [one for name, one in found.items() if not name.startswith("NVIDIA")]
    resident, busy = sum(one.resident for one in ours), sum(one.busy for one in ours)
    print(
        f"  ours: {resident:.1f} MiB resident, {resident / MEMORY:.2f} of the budget of {MEMORY:.0f} MiB; "
        f"{busy:.2%} of a core, {busy / PROCESSOR:.2f} of the budget of {PROCESSOR:.1%}"
    )


if __name__ == "__main__":
    show(measure())
