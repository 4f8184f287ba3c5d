# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A picture of all that a node keeps: run on the node, printed as JSON, and compared on the controller.

Every path with its type, mode, owner, and what is in it; packages, marks and holds, and which units start at boot.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpunode_tool.testing import Node

# No file systems of a disk, the hardware of the simulation, and what podman mounts.
NO_DISK = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/lib/nvsim", "/var/lib/containerd")
NO_DISK += ("/var/cache/apt/archives", "/root/.ssh/authorized_keys", "/etc/machine-id")
NO_DISK += ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
# What every program that runs leaves: logs, and the state of daemons that were there before.
RUNNING = ("/var/log", "/var/lib/systemd", "/var/lib/kubelet", "/var/tmp", "/root/.ansible")
# Caches and lists that the package manager fetches or computes from what is compared below. Its own record of what
# came by itself is compared by apt-mark, that of states by dpkg.
PACKAGES = (
    "/var/lib/apt/lists",
    "/var/cache/apt",
    "/var/lib/apt/extended_states",
    "/var/cache/debconf",
)
PACKAGES += ("/var/lib/dpkg/status", "/var/lib/dpkg/status-old", "/var/lib/dpkg/available")
PACKAGES += ("/var/lib/dpkg/lock", "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/triggers/Lock")
PACKAGES += (
    "/var/lib/dpkg/triggers/Unincorp",
    "/var/lib/dpkg/diversions-old",
    "/var/lib/dpkg/statoverride-old",
)
PACKAGES += ("/var/cache/ldconfig/aux-cache",)
# Compared by their lines.
ACCOUNTS = [
    f"/etc/{name}{old}" for name in ("passwd", "group", "shadow", "gshadow") for old in ("", "-")
]
LEFT_OUT = frozenset((*NO_DISK, *RUNNING, *PACKAGES, *ACCOUNTS))
# Of ours there too, though no disk has it.
OURS = re.compile(r"gpu-node|gpu-plugin|gpu-device|nvidia|k8s.device-plugin")
# What has not been written since an earlier look is not read again.
HASHES = "/run/whole-node.json"
hashes: dict[str, str] = {}
COMMANDS = {
    "selections": ("dpkg", "--get-selections"),
    "versions": ("dpkg-query", "--show"),
    "by hand": ("apt-mark", "showmanual"),
    "automatic": ("apt-mark", "showauto"),
    "on hold": ("apt-mark", "showhold"),
    "units": ("systemctl", "list-unit-files", "--no-legend", "--no-pager"),
    "users": ("getent", "passwd"),
    "groups": ("getent", "group"),
}


def look() -> dict[str, str]:
    """Return a line for each thing by its name."""
    with contextlib.suppress(OSError), open(HASHES) as stream:
        hashes.update(json.load(stream))
    found = {}
    for root, folders, files in os.walk("/"):
        folders[:] = [one for one in folders if os.path.join(root, one) not in LEFT_OUT]
        for name in (*folders, *files):
            path = os.path.join(root, name)
            if path not in LEFT_OUT and not path.endswith(".pyc"):
                found[path] = _line(path)
    for root, folders, files in os.walk("/run"):
        if root == "/run":
            folders.remove("containerd")  # it keeps a folder of each namespace until the next boot
        found.update(
            {os.path.join(root, one): "of ours" for one in (*folders, *files) if OURS.search(one)}
        )
    for name, words in COMMANDS.items():
        for line in subprocess.run(
            words, check=True, capture_output=True, text=True
        ).stdout.splitlines():
            found[f"{name}: {' '.join(line.split())}"] = ""
    with open(HASHES, "w") as stream:
        json.dump(hashes, stream)
    return found


def _line(path: str) -> str:
    status = os.lstat(path)
    text = f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid}"
    if stat.S_ISLNK(status.st_mode):
        return f"{text} -> {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        same = f"{path} {status.st_ino} {status.st_size} {status.st_ctime_ns}"
        if same not in hashes:
            with open(path, "rb") as stream:
                hashes[same] = hashlib.sha256(stream.read()).hexdigest()
        return f"{text} {hashes[same]}"
    return text


def picture(node: Node) -> dict[str, str]:
    """Return all that a node keeps."""
    found: dict[str, str] = json.loads(node.run("python3", "-c", Path(__file__).read_text()))
    return found


def left(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the differences, but for the account of a package: those that Debian's make stay after a purge."""
    found = differences(before, after)
    return [one for one in found if not one.startswith(("+ users: nvpd:", "+ groups: nvpd:"))]


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return what is there and was not, what is gone, and what is otherwise."""
    left = [f"+ {one} {after[one]}" for one in sorted(after.keys() - before.keys())]
    gone = [f"- {one} {before[one]}" for one in sorted(before.keys() - after.keys())]
    both = sorted(before.keys() & after.keys())
    return (
        left
        + gone
        + [f"~ {one} {before[one]} => {after[one]}" for one in both if before[one] != after[one]]
    )


if __name__ == "__main__":
    print(json.dumps(look()))
