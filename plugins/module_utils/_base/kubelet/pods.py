# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The place of a process in the node's cgroups, from /proc/<pid>/cgroup, and its pod."""

from __future__ import annotations

import re
import typing as t

LOGS = "/var/log/pods"  # the kubelet's folders of logs
# The kubelet's links to them, by pod, namespace, container's name, and id.
CONTAINER_LOGS = "/var/log/containers"
CONTAINER_LOG = re.compile(r"[^_]+_[^_]+_([^_]+)-([0-9a-f]{64})\.log")
# Where systemd, and k3s in a container, keep the node's first process.
INIT = ("init.scope", "init")


def paths(cgroup: t.Optional[str], init: t.Optional[str] = None) -> t.List[str]:
    """Return a process's path in each hierarchy, below that of the node.

    ``init`` is the same text of the node's first process. If the node is a container itself, its cgroups may be below
    the container's own.
    """
    roots, result = {}, []
    for hierarchy, path in _lines(init):
        folder, _slash, name = path.rstrip("/").rpartition("/")
        roots[hierarchy] = folder if name in INIT else path.rstrip("/")
    for hierarchy, path in _lines(cgroup):
        root = roots.get(hierarchy, "")
        result.append(path[len(root) :] if path.startswith(f"{root}/") else path)
    return result


def _lines(text: t.Optional[str]) -> t.Iterator[t.Tuple[str, str]]:
    # The kernel allows no line end in the name of a cgroup.
    for line in (text or "").split("\n"):
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[1], parts[2]


HEX = "[0-9a-f]{8}{0}[0-9a-f]{4}{0}[0-9a-f]{4}{0}[0-9a-f]{4}{0}[0-9a-f]{12}"
DASHED, UNDERSCORED = (f"({HEX.replace('{0}', mark)})" for mark in "-_")
QUALITY = "(?:burstable|besteffort)"


def _by_systemd(root: str) -> str:
    """Return the pattern of the slices that systemd makes for a kubelet, below a root slice or none."""
    parent = f"/{root}\\.slice" if root else ""
    pods = f"{root}-kubepods" if root else "kubepods"
    return (
        rf"{parent}/{pods}\.slice"
        rf"(?:/{pods}-(?P<quality>burstable|besteffort)\.slice/{pods}-(?P=quality)|/{pods})"
        rf"-pod{UNDERSCORED}\.slice(?=/|$)"
    )


# With kubelet's cgroups at the top, in kind's place, and in that of a runtime without systemd for a kubelet with
# systemd: below its own service.
PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        _by_systemd(""),
        _by_systemd("kubelet"),
        rf"(?:/kubelet)?/kubepods(?:/{QUALITY})?/pod{DASHED}(?=/|$)",
        rf"(?:/system\.slice/containerd\.service)?/kubepods(?:-{QUALITY})?-pod{UNDERSCORED}\.slice:cri-containerd:[0-9a-f]",
    )
)


def uid_of(cgroup: t.Optional[str], init: t.Optional[str] = None) -> str:
    """Return the pod's UID from a process's /proc/<pid>/cgroup, empty if it is in no pod.

    ``init`` is that of the node's first process.
    """
    for path in paths(cgroup, init):
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


def folders_of(namespace: str, pod: str, log_folders: t.Iterable[str]) -> t.List[str]:
    """Return the log folders of all pods that have had a name."""
    return [folder for folder in log_folders if folder.split("_")[:-1] == [namespace, pod]]


def uid_in(log_folder: str) -> str:
    """Return the UID in a log folder's name."""
    return log_folder.rpartition("_")[2]


def boot_time(stat: t.Optional[str]) -> t.Optional[float]:
    """Return when the node was booted, in seconds since the epoch, from /proc/stat."""
    match = re.search(r"^btime (\d+)$", stat or "", re.M)
    return float(match[1]) if match else None


UID = re.compile(HEX.replace("{0}", "-"))


def ended(uids: t.Iterable[str], running: t.Collection[str], *, started: bool) -> bool:
    """Return whether a pod, by the UIDs of its name, has run since the boot and does not any more.

    A static pod's UID is of another form, and if no pod runs at all, cgroups are of an unknown form: neither proves
    anything.
    """
    known = list(uids)
    unproven = any(uid in running or UID.fullmatch(uid) is None for uid in known)
    return started and bool(running and known) and not unproven
