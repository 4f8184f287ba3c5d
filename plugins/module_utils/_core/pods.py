# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pod a process is in, as the node itself shows it."""

from __future__ import annotations

import re
import typing as t

from . import cgroups

HEX = "[0-9a-f]{8}{0}[0-9a-f]{4}{0}[0-9a-f]{4}{0}[0-9a-f]{4}{0}[0-9a-f]{12}"
DASHED, UNDERSCORED = (f"({HEX.replace('{0}', mark)})" for mark in "-_")
QUALITY = "(?:burstable|besteffort)"


def _by_systemd(root: str) -> str:
    """Return the pattern of the slices that a kubelet has systemd make, below a root slice or none."""
    parent = f"/{root}\\.slice" if root else ""
    pods = f"{root}-kubepods" if root else "kubepods"
    return (
        rf"{parent}/{pods}\.slice"
        rf"(?:/{pods}-(?P<quality>burstable|besteffort)\.slice/{pods}-(?P=quality)|/{pods})"
        rf"-pod{UNDERSCORED}\.slice(?=/|$)"
    )


# With kubelet's cgroups at the top, where kind has them, and where a runtime without systemd puts
# what a kubelet with systemd asks for: below its own service.
PATTERNS = tuple(
    re.compile(one)
    for one in (
        _by_systemd(""),
        _by_systemd("kubelet"),
        rf"(?:/kubelet)?/kubepods(?:/{QUALITY})?/pod{DASHED}(?=/|$)",
        rf"(?:/system\.slice/containerd\.service)?/kubepods(?:-{QUALITY})?-pod{UNDERSCORED}\.slice:cri-containerd:[0-9a-f]",
    )
)


def uid_of(cgroup: t.Optional[str], init: t.Optional[str] = None) -> str:
    """Return the pod's UID from a process's /proc/<pid>/cgroup, empty where it is in no pod.

    ``init`` is that of the node's first process.
    """
    for path in cgroups.paths(cgroup, init):
        for pattern in PATTERNS:
            match = pattern.match(path)
            if match:
                return match[match.lastindex or 1].replace("_", "-")
    return ""


def name_of(uid: str, log_folders: t.Iterable[str]) -> str:
    """Return namespace/name of a pod from the names of the kubelet's log folders, else its UID."""
    for folder in log_folders:
        parts = folder.split("_")
        if len(parts) == 3 and parts[2] == uid:
            return f"{parts[0]}/{parts[1]}"
    return uid
