# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who holds the lock of a package manager."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import NodeError
from ..._base.pods import paths
from ..._base.text.shown import printable
from ..host import Host

# apt: "It is held by process 7", dpkg: "by another process with pid 7", zypper: "the application with pid 7".
HELD_BY = re.compile(r"\b(?:process|pid)\s+(?:with pid\s+)?(\d+)")
UNITS = (".service", ".scope")


def holder(host: Host, said: str, locks: t.Iterable[str]) -> str:
    """Return the process that a package manager names, or that has a lock: "7 (apt-get, apt-daily.service)"."""
    named = HELD_BY.search(said)
    pids = [int(named[1])] if named else []
    pids += [pid for pid in map(host.lock_holder, locks) if pid]
    return _described(host, pids[0]) if pids else ""


def _described(host: Host, pid: int) -> str:
    name = printable(_proc(host, pid, "comm").strip())
    found = paths(_proc(host, pid, "cgroup"), _proc(host, 1, "cgroup"))
    units = (one.rsplit("/", 1)[-1] for one in found if one.endswith(UNITS))
    unit = next(units, "")
    words = ", ".join(filter(None, (name, unit)))
    return f"{pid} ({words})" if words else str(pid)


def _proc(host: Host, pid: int, name: str) -> str:
    """Return a file of a process, empty where it has ended."""
    try:
        return host.read(f"/proc/{pid}/{name}") or ""
    except NodeError:
        return ""
