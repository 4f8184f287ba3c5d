# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files of ours are root's, in their mode, and no links: whoever may write to one of them is root soon.

And drop-ins of our units: what they add is a user's choice, what they set again may be what keeps a unit safe.
"""

from __future__ import annotations

import posixpath
import stat
import typing as t

from .._base.steps import Step
from .host import Host, Status, not_regular

FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/etc/systemd/system.control")
# What a drop-in adds to, or has as much of as the node can bear.
FREE = frozenset(
    {
        *("After", "Before", "Description", "Documentation", "Environment", "EnvironmentFile"),
        *("MemoryMax", "OOMScoreAdjust", "RestartSec", "TasksMax", "Wants"),
    }
)

ACTION = "own_files"


class OwnFiles(t.NamedTuple):
    """The modes of files and folders that a capability keeps on a node; what is not there is not looked at.

    ``proof`` are files of which the ``record`` of what was added tells where it is there, ``instead`` what may be done
    without it.
    """

    host: Host
    modes: t.Mapping[str, int] = {}
    folders: t.Tuple[str, ...] = ()
    record: str = ""
    proof: t.Tuple[str, ...] = ()
    instead: str = ""

    def forgotten(self) -> t.Tuple[str, ...]:
        """Return what to say of a record that is gone."""
        found = [path for path in self.proof if self.host.exists(path)]
        if not found or self.host.exists(self.record):
            return ()
        show = "shows" if len(found) == 1 else "show"
        return (
            f"{self.record} is not there, and {', '.join(found)} {show} that an earlier run has set up this node: what "
            "it has added is not known any more, and stays when it is removed. Next step: restore the file from a "
            f"backup{self.instead}",
        )

    def overruled(self) -> t.Tuple[str, ...]:
        """Return what to say of drop-ins that set again what our units set."""
        units = (path for path in self.modes if posixpath.dirname(path) == FOLDERS[0])
        found = ((path, drop_in) for path in units for drop_in in self._drop_ins(path))
        said = ((one, replaced(self._text(path), self._text(one))) for path, one in found)
        return tuple(warning(path, names) for path, names in said if names)

    def _drop_ins(self, unit: str) -> t.Iterator[str]:
        for folder in FOLDERS:
            place = f"{folder}/{posixpath.basename(unit)}.d"
            names = self.host.listdir(place)
            yield from (f"{place}/{name}" for name in names if name.endswith(".conf"))

    def _text(self, path: str) -> str:
        return self.host.read(path) or ""

    def steps(self) -> t.Tuple[Step, ...]:
        """Return the step that gives back what is not root's, or in another mode. NodeError: one is no regular file."""
        wanted = {**dict.fromkeys(self.folders, 493), **self.modes}
        pairs = ((path, self.host.itself(path)) for path in wanted)
        off = {
            path: f"{path} (mode {stat.S_IMODE(one.mode):04o}, owner {one.uid}:{one.gid})"
            for path, one in pairs
            if one is not None and self._is_off(path, one, wanted[path])
        }
        if not off:
            return ()
        summary = f"give back to root, with the modes that they had: {', '.join(off.values())}"
        return (Step(ACTION, summary, {"modes": {path: wanted[path] for path in off}}),)

    def apply(self, step: Step) -> None:
        """Give them back."""
        for path, mode in step.params["modes"].items():
            self.host.dress(path, mode)

    def _is_off(self, path: str, status: Status, mode: int) -> bool:
        folder = path in self.folders
        if stat.S_ISDIR(status.mode) != folder or not (stat.S_ISREG(status.mode) or folder):
            raise not_regular(path, status.mode, self.host.readlink(path))
        return stat.S_IMODE(status.mode) != mode or (status.uid, status.gid) != (0, 0)


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
