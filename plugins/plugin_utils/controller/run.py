# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""This run of Ansible: its controller and its process, by which others know whether it goes on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import subprocess
import time
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.client import user
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import TIME, Change

# In /proc/<pid>/stat behind the program's name: when it has started, in ticks since the boot, and the state of one that
# has ended and was not waited for.
STARTED = 19
ENDED = "Z"


def this_run(change: str) -> Change:
    """Return a change that this run begins now."""
    parent = multiprocessing.parent_process()  # of a worker, in which plugins run
    pid = (parent and parent.pid) or os.getpid()
    return Change(
        change,
        host=socket.gethostname(),
        user=user(),
        machine=_machine(),
        pid=pid,
        process=process(pid),
        begun=time.strftime(TIME, time.gmtime()),
    )


def lives(pid: int, start_time: str) -> bool:
    """Return whether that process of this machine is there; it is if it can't be looked at."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return process(pid) in ("", start_time)


def process(pid: int) -> str:
    """Return what tells a process from others that had its number before, empty where it can't be looked at."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return "ended" if fields[0] == ENDED else f"{boot} {fields[STARTED]}"
    with contextlib.suppress(OSError):  # of other systems than Linux
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        environment = {**os.environ, "LC_ALL": "C"}
        completed = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        )
        return completed.stdout.strip()
    return ""


def _machine() -> str:
    """Return what has the processes that this one sees: a container sees its own alone."""
    parts = []
    with contextlib.suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
