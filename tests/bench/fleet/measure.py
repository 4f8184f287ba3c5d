# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One run of a playbook over the fleet, and what the controller took for it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import helper_process

HERE = Path(__file__).parent
SETTINGS = {
    "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "connection"),
    "ANSIBLE_INJECT_FACT_VARS": "false",
    "ANSIBLE_PIPELINING": "true",
    "ANSIBLE_FORKS": "20",
    "ANSIBLE_NOCOLOR": "true",
    "ANSIBLE_DEPRECATION_WARNINGS": "false",
}


@dataclass(frozen=True)
class Cost:
    """What a run took: seconds of a processor, MiB, seconds, and bytes to and from the nodes.

    ``first`` is the part of the process that hands out the tasks, of which there is one whatever the forks.
    """

    nodes: int
    processor: float
    first: float
    modules: float
    memory: float
    wall: float
    sent: int
    received: int
    calls: int

    def per_node(self, what: str) -> float:
        return float(getattr(self, what)) / self.nodes


def measure(
    folder: Path, nodes: int, *options: str, command: Sequence[str] = (), **settings: str
) -> Cost:
    """Run the playbook on so many nodes. RuntimeError: it failed."""
    shutil.rmtree(folder / "counts", ignore_errors=True)
    (folder / "counts").mkdir()
    (folder / "carried").write_text("")
    # The user's own counts for nothing.
    (folder / "ansible.cfg").write_text(f"[defaults]\n{settings.pop('defaults', '')}\n")
    own = {"FLEET": str(folder), "ANSIBLE_CONFIG": str(folder / "ansible.cfg")}
    environment = {**os.environ, **SETTINGS, **own, **settings}
    plain = [
        "ansible-playbook",
        "-i",
        str(inventory(folder, nodes)),
        *options,
        "gpu.node.gpu_nodes",
    ]
    words = list(command or plain)
    before, begun = used(), time.monotonic()
    with (
        (folder / "log").open("w") as log,
        helper_process.start(
            words,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            ready=helper_process.executed,
        ) as process,
        watched(process.pid) as seen,
    ):
        status = process.wait(None)
    wall, processor = time.monotonic() - begun, used() - before
    if status:
        raise RuntimeError((folder / "log").read_text()[-4000:])
    carried = [json.loads(line) for line in (folder / "carried").read_text().splitlines()]
    _hosts, asked, sent, received, busy = zip(*carried, strict=True)
    modules = sum(busy)
    calls = sum(one != "put" for one in asked)
    return Cost(
        nodes=nodes,
        processor=processor - modules,
        first=seen.processor,
        modules=modules,
        memory=seen.memory,
        wall=wall,
        sent=sum(sent),
        received=sum(received),
        calls=calls,
    )


def inventory(folder: Path, nodes: int) -> Path:
    """Write an inventory of so many nodes, with the variables that the folder has."""
    path = folder / f"{nodes}.json"
    hosts: dict[str, dict[str, str]] = {f"n{number:05}": {} for number in range(1, nodes + 1)}
    group = {"hosts": hosts, "vars": json.loads((folder / "variables").read_text())}
    path.write_text(json.dumps({"gpu_nodes": group}))
    return path


def used() -> float:
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


@dataclass
class Seen:
    """What a process and its children had in memory at most, in MiB, and seconds of a processor of its own."""

    memory: float = 0.0
    processor: float = 0.0


@contextlib.contextmanager
def watched(pid: int) -> Iterator[Seen]:
    """Look at a process once a second."""
    seen, ended = Seen(), threading.Event()

    def look() -> None:
        while not ended.wait(1):
            seen.memory = max(seen.memory, sum(map(proportional, [pid, *descendants(pid)])))
            seen.processor = max(seen.processor, of_its_own(pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def of_its_own(pid: int) -> float:
    """Return seconds of a processor that a process has had, without its children."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def descendants(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [one for child in map(int, children) for one in (child, *descendants(child))]
    return []


def proportional(pid: int) -> float:
    """Return MiB in memory, what is shared by parts; of Ansible's processes alone."""
    with contextlib.suppress(OSError):
        if b"ansible" in Path(f"/proc/{pid}/cmdline").read_bytes():
            found = re.search(r"^Pss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
            return int(found[1]) / 1024 if found else 0.0
    return 0.0


def changed(folder: Path) -> int:
    """Return how many tasks changed something in the last run, which Ansible's own display has shown."""
    return sum(map(int, re.findall(r"^n\d+ .* changed=(\d+) ", (folder / "log").read_text(), re.M)))
