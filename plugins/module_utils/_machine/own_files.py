# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files of ours belong to root, in their modes, and are no links: a user who may write to one can become root.

A list beside the records names those that the node has, so that a lost record is noticed.
"""

from __future__ import annotations

import posixpath
import re
import stat
import time
import typing as t

from .._base.errors import NodeError
from .._base.steps import Step
from . import drop_ins
from .host import Host, not_regular

# The paths of all records, a line each, and again behind AGAIN if a lost record was begun again.
RECORDS = "/var/lib/gpu-node/records"
AGAIN = "again:"
ACTION, SWEEP = "own_files", "sweep"
ACTIONS = (ACTION, SWEEP)
# What Host.write makes beside a file, by the names of tempfile.
LEFT = re.compile(r"\.(.+)\.[a-z0-9_]{8}")
OLD = 3600.0  # seconds; no write lasts so long


class OwnFiles(t.NamedTuple):
    """The files and folders that a capability keeps on a node, with their modes; they may be missing.

    Attributes:
        record: The record of what was added to the node.
        proof: Files that are there only if there was a record.
        instead: What may be done if it is lost, for the warning.
        shared: Folders that have files of others too, besides those that ours are in.
    """

    host: Host
    modes: t.Mapping[str, int] = {}
    folders: t.Tuple[str, ...] = ()
    record: str = ""
    proof: t.Tuple[str, ...] = ()
    instead: str = ""
    shared: t.Tuple[str, ...] = ()

    def warnings(self) -> t.Tuple[str, ...]:
        """Return warnings about changes of others that no run undoes."""
        units = [path for path in self.modes if posixpath.dirname(path) == drop_ins.UNITS]
        return (*self.forgotten(), *drop_ins.warnings(self.host, units), *self.exposed())

    def forgotten(self) -> t.Tuple[str, ...]:
        """Return the warning about a record that is lost, or that was begun again after that."""
        if not self.record:
            return ()
        mark, there = f"{AGAIN}{self.record}", self.host.exists(self.record)
        if there and mark in listed(self.host):
            return (
                f"{self.record} was lost and begun again: what earlier runs have added or changed is not known any "
                "more, and stays when it is removed. Next step: restore the file from a backup, and take the line "
                f"{mark} out of {RECORDS}",
            )
        if there:
            return ()
        paths = [path for path in self.proof if self.host.exists(path)]
        paths = paths or [RECORDS] * (self.record in listed(self.host))
        if not paths:
            return ()
        show = "shows" if len(paths) == 1 else "show"
        return (
            f"{self.record} is not there, and {', '.join(paths)} {show} that an earlier run has set up this node: what "
            "it has added or changed is not known any more, and stays when it is removed. Next step: restore the file "
            f"from a backup{self.instead}",
        )

    def note(self, *, was_there: bool) -> None:
        """Update the list for the record after a step; a record that was lost before the step stays in it."""
        known, there = listed(self.host), self.host.exists(self.record)
        mark = f"{AGAIN}{self.record}"
        begun_again = not was_there and self.record in known
        left = known - {self.record, mark} if was_there else known
        records = known | {self.record} | ({mark} if begun_again else set()) if there else left
        if records and records != known:
            text = "".join(f"{record}\n" for record in sorted(records))
            self.host.write(RECORDS, text, mode=0o644)
        elif not records:
            self.host.remove(RECORDS)

    def exposed(self) -> t.Tuple[str, ...]:
        """Return warnings about folders in which others than root can replace our files."""
        folders = (*map(posixpath.dirname, self.modes), *self.shared)
        parents = (path for path in dict.fromkeys(folders) if path not in self.folders)
        pairs = ((path, self.host.status(path)) for path in parents)
        return tuple(
            f"not only root can write to {path}, and whoever can is root soon. Next step: chown root:root {path} && "
            f"chmod 0755 {path}"
            for path, status in pairs
            if status is not None and status.is_open
        )

    def steps(self) -> t.Tuple[Step, ...]:
        """Return the steps that give files back to root in their modes, and remove what was left of writes.

        Raises:
            NodeError: if a file of ours is no regular file.
        """
        off, descriptions = {}, []
        for path, mode in {**dict.fromkeys(self.folders, 0o755), **self.modes}.items():
            status, is_folder = self.host.itself(path), path in self.folders
            if status is None:
                continue
            if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(status.mode):
                target = self.host.readlink(path)
                raise not_regular(path, status.mode, target, is_folder=is_folder)
            present = stat.S_IMODE(status.mode)
            if present != mode or (status.uid, status.gid) != (0, 0):
                off[path] = mode
                descriptions.append(f"{path} (mode {present:04o}, owner {status.uid}:{status.gid})")
        left = self._left()
        steps = []
        if off:
            summary = f"give back to root, with the modes that they had: {', '.join(descriptions)}"
            steps.append(Step(ACTION, summary, {"modes": off}))
        if left:
            summary = f"remove what a run that was killed has left: {', '.join(left)}"
            steps.append(Step(SWEEP, summary, {"paths": tuple(left)}))
        return tuple(steps)

    def check(self, steps: t.Iterable[Step]) -> None:
        """Refuse steps that name a file of ours that even root can't replace.

        Raises:
            NodeError: if there is one, with what ends that.
        """
        text = "\n".join(step.summary for step in steps)
        for path in self.modes:
            hindrance = self.host.find_hindrance(path) if path in text else None
            if hindrance:
                hint = f"{hindrance.hint}, then run again"
                raise NodeError(f"{path} can't be written", cause=hindrance.cause, hint=hint)

    def _left(self) -> t.List[str]:
        """Return the new files of writes that were killed before they replaced ours."""
        left = []
        for folder in dict.fromkeys(map(posixpath.dirname, self.modes)):
            for name in self.host.listdir(folder):
                match, path = LEFT.fullmatch(name), f"{folder}/{name}"
                if not match or f"{folder}/{match[1]}" not in self.modes:
                    continue
                status = self.host.itself(path)
                is_ours = status is not None and stat.S_ISREG(status.mode) and status.uid == 0
                if is_ours and status is not None and time.time() - status.ctime > OLD:
                    left.append(path)
        return left

    def apply(self, step: Step) -> None:
        """Give files back, or remove what was left."""
        for path, mode in step.params.get("modes", {}).items():
            self.host.dress(path, mode)
        for path in step.params.get("paths", ()):
            self.host.remove(path)


def listed(host: Host) -> t.FrozenSet[str]:
    """Return the paths of the records that the node has to have."""
    return frozenset((host.read(RECORDS) or "").split())
