# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files that installed packages have lost: a specification that followed them would take them from containers."""

from __future__ import annotations

import typing as t

from .._base.errors import NodeError
from .._base.text import json_data

# What reinstalls packages, by the program that does it. Debian has the others too.
REINSTALL = {
    "apt-get": "apt-get install --reinstall",
    "zypper": "zypper install --force",
    "dnf": "dnf reinstall",
}


def paths(text: t.Optional[str]) -> t.FrozenSet[str]:
    """Return the files of the node that a specification of ours names, without sockets, which services make."""
    try:
        spec = json_data.loads(text or "{}")
        edits = [spec.get("containerEdits", {})]
        edits += [one["containerEdits"] for one in spec.get("devices", ())]
        found = [one["hostPath"] for each in edits for one in each.get("mounts", ())]
        found += [one["path"] for each in edits for one in each.get("hooks", ())]
    except json_data.MISREAD:
        return frozenset()
    return frozenset(one for one in map(str, found) if not one.startswith(("/run/", "/var/run/")))


def aliases(path: str) -> t.Tuple[str, ...]:
    """Return the paths by which a package may know a file: /lib and /usr/lib were two folders when some were made."""
    return (path, path[len("/usr") :]) if path.startswith("/usr/") else (path,)


def by_dpkg(told: str) -> t.Dict[str, str]:
    """Return the package of each path that dpkg-query -S has found."""
    lines = (line.split(": ", 1) for line in told.splitlines() if not line.startswith("diversion "))
    pairs = (one for one in lines if len(one) == 2)
    return {path: names.split(",")[0].partition(":")[0] for names, path in pairs}


def installed(told: str) -> t.FrozenSet[str]:
    """Return the packages that are in order, by lines of their state and name."""
    words = (line.split() for line in told.splitlines())
    return frozenset(one[1].partition(":")[0] for one in words if one[0] in ("ii", "hi"))


def refusal(owners: t.Mapping[str, str], manager: str) -> NodeError:
    """Return why a specification can't be brought up to date: files are gone, which these packages have."""
    gone = ", ".join(f"{path} ({name})" for path, name in sorted(owners.items()))
    again = f"{REINSTALL[manager]} {' '.join(sorted(set(owners.values())))}"
    return NodeError(
        f"files of installed packages are gone: {gone}",
        cause="the CDI specification, and containers with it, would lose them",
        hint=f"{again}, then run again",
    )
