# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One file of a container runtime: the edit that it needs, and what is remembered to revert it."""

from __future__ import annotations

import typing as t

from ..._core.runtimes import edits
from ..._core.runtimes.common import Change, Path, describe
from .record import Written
from .runtime import Runtime


class File(t.NamedTuple):
    """A file of a runtime: its text, None where there is none, what is known of it, and the edit."""

    path: str
    text: t.Optional[str]
    fresh: str
    changes: t.Tuple[Change, ...] = ()
    reverts: t.Tuple[Change, ...] = ()
    removals: t.Tuple[edits.Removal, ...] = ()
    written: t.Optional[Written] = None
    restored: bool = False

    def is_live(self, live: t.Sequence[Path]) -> bool:
        """Tell whether a reload, which takes over keys below ``live``, is enough; what goes away takes a start."""
        gone = bool(self.reverts or self.removals or self.restored)
        keys = [path for path, _value in self.changes]
        return not gone and all(any(key[: len(one)] == one for one in live) for key in keys)

    def summary(self) -> str:
        """Return the edit as text."""
        if self.restored:
            verb = "remove" if self.written and self.written.base is None else "restore"
            return f"{verb} {self.path}"
        parts = [f"set {describe(self.changes)}"] if self.changes else []
        back = [(path, None) for path, _depth in self.removals] + list(self.reverts)
        parts += [f"revert {', '.join(path[-1] for path, _value in back)}"] if back else []
        return f"{' and '.join(parts)} in {self.path}"

    def planned(
        self, runtime: Runtime, changes: t.Sequence[Change], keep: t.Container[Path]
    ) -> t.Optional[File]:
        """Return the file with its edit, None where it needs none: changes, and what of ours is not to be kept."""
        entries = self.written.entries if self.written else ()
        idle = [one for one in entries if one.path not in keep]
        reverts, removals = edits.revert(runtime.parse(self.text or "", self.path), idle)
        if not (changes or reverts or removals):
            return None
        untouched = self.written is not None and self.text == self.written.text
        restored = untouched and not changes and len(idle) == len(entries)
        return self._replace(
            changes=tuple(changes),
            reverts=tuple(reverts),
            removals=tuple(removals),
            restored=restored,
        )

    def edited(self, runtime: Runtime) -> t.Optional[str]:
        """Return the text after the edit, None where no file is left."""
        if self.restored and self.written:
            return self.written.base
        changes = [*self.reverts, *self.changes]
        text = runtime.edit(self.text or self.fresh, changes, self.removals)
        if self.written is not None and self.written.base is None and not self.changes:
            fresh = runtime.parse(self.fresh, self.path)
            if runtime.parse(text, self.path) in (fresh, {}):
                return None
        return text

    def record(self, runtime: Runtime, text: str) -> Written:
        """Return what to remember of the file once it has this text: how it would be without us."""
        old, base = self.written, self.text
        config = runtime.parse(self.text or "", self.path)
        entries = old.entries if old else ()
        if old is not None and self.text is not None:
            others = runtime.edit(self.text, *edits.revert(config, entries))
            base = old.base if self.text == old.text else others
        gone = {path for path, _rest in (*self.removals, *self.reverts)}
        kept = [one for one in entries if one.path not in gone]
        return Written(runtime.kind.name, base, text, tuple(edits.note(config, self.changes, kept)))
