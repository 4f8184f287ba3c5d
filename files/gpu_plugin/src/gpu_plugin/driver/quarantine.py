# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Follows what gpu.node.quarantine has set aside on the node, and what the gate of gpu.node.accept holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from .._shared._base.errors import damaged
from .._shared._base.text.shown import cut
from .._shared._node import gate, quarantine
from .._shared._node.gate import Gate, dump_gate, held, parse_gate, with_held
from .._shared._node.quarantine import EMPTY, Quarantine, dump, parse
from ..tools import bounded, files, logs
from ..tools.chores import Chore
from ..tools.files import StateFile, recall
from .memory import boot_id

T = TypeVar("T")

FILE: Final = "quarantine.json"
MOST_WORDS: Final = 4000  # characters


class FollowedFile(Generic[T]):
    """A file of a module, by its ``value``. One that can't be used changes nothing, also for the next process.

    Args:
        name: What it is about, for logs.
        hint: What helps if it is damaged.
        unknown: What it is while none could be read.
        path: Where it is seen.
        state_path: The copy of the last good file.
    """

    def __init__(
        self,
        name: str,
        hint: str,
        parse: Callable[[str | None], T],
        dump: Callable[[T], str | None],
        unknown: T,
        path: Path,
        state_path: Path,
    ) -> None:
        self._name, self._hint, self._parse, self._dump, self._path = name, hint, parse, dump, path
        self._state_file = StateFile(state_path)
        self._seen: object = self  # no stamp of a file is equal to it
        trouble = f"the {name} is not known from before"
        self.value = recall(state_path, trouble, lambda data: parse(data[name]), unknown)
        trouble = f"the {name} can't be read, so that the last that could be stays"
        self.chore = Chore(name, trouble, self._read)

    def look(self) -> None:
        """Read the file if it changed."""
        if files.stamp(self._path) != self._seen or self.chore.error:
            self.chore.run()

    def _read(self) -> None:
        stamp, text = files.stamp(self._path), None
        try:
            text = bounded.read_text(self._path)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except UnicodeDecodeError as error:
            raise damaged(str(self._path), error, self._hint) from error
        self.value = self._parse(text)
        self._seen = stamp
        self._state_file.write({self._name: self._dump(self.value)})


class QuarantineWatch:
    """The ``entries`` in quarantine, with those that a gate holds. ``gated`` is whether there is a gate.

    Args:
        host_root: Where the host's files are seen.
        state_path: The copy of the last good quarantine. That of the gate is beside it.
    """

    def __init__(self, host_root: Path, state_path: Path) -> None:
        self._quarantine: FollowedFile[Quarantine] = FollowedFile(
            "quarantine",
            quarantine.DAMAGED,
            parse,
            dump,
            EMPTY,
            host_root / quarantine.PATH.lstrip("/"),
            state_path,
        )
        # A gate that can't be read is closed, as one that was not checked since the boot.
        self._gate: FollowedFile[Gate | None] = FollowedFile(
            "gate",
            gate.DAMAGED,
            parse_gate,
            lambda value: value and dump_gate(value),
            Gate(""),
            host_root / gate.PATH.lstrip("/"),
            state_path.with_name(f"gate.{state_path.name}"),
        )
        self.chores = (self._quarantine.chore, self._gate.chore)
        self._boot = boot_id(host_root)
        self.entries = EMPTY

    @property
    def gated(self) -> bool:
        """Return whether the node has a gate."""
        return self._gate.value is not None

    @property
    def gate(self) -> tuple[Gate | None, str]:
        """Return the gate, None if there is none, and the ID of the boot that it has to be checked in."""
        return self._gate.value, self._boot

    def look(self) -> bool:
        """Read the files if they changed. Return whether the entries have changed."""
        self._quarantine.look()
        self._gate.look()
        before, self.entries = (
            self.entries,
            with_held(self._quarantine.value, held(self._gate.value, self._boot)),
        )
        if before != self.entries:
            logs.info("something else is in quarantine", **quarantine.data_of(self.entries))
        return before != self.entries

    @property
    def describe(self) -> str:
        """Return what is in quarantine in a line, for people."""
        whole = [f"all: {self.entries.node.why}"] if self.entries.node else []
        gpus = (f"{uuid}: {entry.why}" for uuid, entry in self.entries.gpus.items())
        return cut("; ".join([*whole, *gpus]), MOST_WORDS)
