# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files of ours are root's, in their mode, and no links: whoever may write to one of them is root soon."""

from __future__ import annotations

import posixpath
import stat
import typing as t

from .._base import drop_ins
from .._base.steps import Step
from .host import Host, Status, not_regular

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
        units = (path for path in self.modes if posixpath.dirname(path) == drop_ins.FOLDERS[0])
        found = ((path, drop_in) for path in units for drop_in in self._drop_ins(path))
        said = ((one, drop_ins.replaced(self._text(path), self._text(one))) for path, one in found)
        return tuple(drop_ins.warning(path, names) for path, names in said if names)

    def _drop_ins(self, unit: str) -> t.Iterator[str]:
        for folder in drop_ins.FOLDERS:
            place = f"{folder}/{posixpath.basename(unit)}.d"
            names = self.host.listdir(place)
            yield from (f"{place}/{name}" for name in names if name.endswith(".conf"))

    def _text(self, path: str) -> str:
        return self.host.read(path) or ""

    def steps(self) -> t.Tuple[Step, ...]:
        """Return the step that gives back what is not root's, or in another mode. NodeError: one is no regular file."""
        wanted = {**dict.fromkeys(self.folders, 493), **self.modes}
        pairs = ((path, self.host.itself(path)) for path in wanted)
        found = {path: status for path, status in pairs if status is not None}
        off = {
            path: wanted[path]
            for path, status in found.items()
            if self._is_off(path, status, wanted[path])
        }
        if not off:
            return ()
        words = (f"{path} ({_shown(found[path])})" for path in off)
        summary = f"give back to root, with the modes that they had: {', '.join(words)}"
        return (Step(ACTION, summary, {"modes": off}),)

    def apply(self, step: Step) -> None:
        """Give them back."""
        for path, mode in step.params["modes"].items():
            self.host.dress(path, mode)

    def _is_off(self, path: str, status: Status, mode: int) -> bool:
        if stat.S_ISDIR(status.mode) != (path in self.folders) or not (
            stat.S_ISREG(status.mode) or path in self.folders
        ):
            raise not_regular(path, status.mode, self.host.readlink(path))
        return stat.S_IMODE(status.mode) != mode or (status.uid, status.gid) != (0, 0)


def _shown(status: Status) -> str:
    return f"mode {stat.S_IMODE(status.mode):04o}, owner {status.uid}:{status.gid}"
