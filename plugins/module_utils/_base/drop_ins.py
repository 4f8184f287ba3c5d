# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drop-ins of our units: what they add is a user's choice, what they set again may be what keeps a unit safe."""

from __future__ import annotations

import typing as t

FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/etc/systemd/system.control")
# What a drop-in adds to, or has as much of as the node can bear.
FREE = frozenset(
    {
        *("After", "Before", "Description", "Documentation", "Environment", "EnvironmentFile"),
        *("MemoryMax", "OOMScoreAdjust", "RestartSec", "TasksMax", "Wants"),
    }
)


def settings(text: str) -> t.Iterator[t.Tuple[str, str]]:
    """Yield the settings of a unit file in their order, each under its section's name and its own."""
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        word = line.strip()
        if word.startswith("["):
            section = word
        elif "=" in word and not word.startswith(("#", ";")):
            name, _is, value = word.partition("=")
            yield f"{section}{name.strip()}", value.strip()


def replaced(unit: str, drop_in: str) -> t.List[str]:
    """Return the settings of a unit that a drop-in sets otherwise, but for those that are free."""
    ours: t.Dict[str, t.List[str]] = {}
    for name, value in settings(unit):
        ours.setdefault(name, []).append(value)
    found = (
        name.rpartition("]")[2]
        for name, value in settings(drop_in)
        if name in ours and value not in ours[name] and name.rpartition("]")[2] not in FREE
    )
    return list(dict.fromkeys(found))


def warning(path: str, names: t.Sequence[str]) -> str:
    """Return what to say of a drop-in that sets these anew."""
    unit = path.rpartition("/")[0].rpartition("/")[2][: -len(".d")]
    return (
        f"{path} overrules what {unit} needs, or what protects the node from it: {', '.join(names)}. Next step: remove "
        f"that from it, then run systemctl daemon-reload and systemctl restart {unit}; other settings may stay"
    )
