# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Follows what gpu.node.quarantine has set aside on the node."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .._shared._base.errors import damaged
from .._shared._base.text.shown import cut
from .._shared._node.quarantine import DAMAGED, EMPTY, PATH, data_of, dump, parse
from ..tools import bounded, files, logs
from ..tools.chores import Chore
from ..tools.files import StateFile, recall

FILE: Final = "quarantine.json"
MOST_WORDS: Final = 4000  # characters


class QuarantineWatch:
    """The ``entries`` in quarantine. A file that can't be used changes nothing, also for the next process.

    Args:
        host_root: Where the host's files are seen.
        state_path: The copy of the last good file.
    """

    def __init__(self, host_root: Path, state_path: Path) -> None:
        self._path = host_root / PATH.lstrip("/")
        self._state_file = StateFile(state_path)
        self._seen: object = self  # no stamp of a file is equal to it
        self._last = EMPTY
        trouble = "what was in quarantine is not known from before"
        self.entries = recall(
            state_path, trouble, lambda data: parse(data.get("quarantine")), EMPTY
        )
        trouble = "what is in quarantine can't be read, so that the last that could be stays"
        self.chore = Chore("quarantine", trouble, self._read)

    def look(self) -> bool:
        """Read the file if it changed. Return whether the entries have changed."""
        if files.stamp(self._path) != self._seen or self.chore.error:
            self.chore.run()
        before, self._last = self._last, self.entries
        return before != self.entries

    @property
    def describe(self) -> str:
        """Return what is in quarantine in a line, for people."""
        whole = [f"all: {self.entries.node.why}"] if self.entries.node else []
        gpus = (f"{uuid}: {entry.why}" for uuid, entry in self.entries.gpus.items())
        return cut("; ".join([*whole, *gpus]), MOST_WORDS)

    def _read(self) -> None:
        stamp, text = files.stamp(self._path), None
        try:
            text = bounded.read_text(self._path)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except UnicodeDecodeError as error:
            raise damaged(PATH, error, DAMAGED) from error
        before, self.entries = self.entries, parse(text)
        self._seen = stamp
        if before != self.entries:
            logs.info("something else is in quarantine", **data_of(self.entries))
        self._state_file.write({"quarantine": dump(self.entries)})
