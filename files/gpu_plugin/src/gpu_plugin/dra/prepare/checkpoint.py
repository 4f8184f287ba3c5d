# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The file that says which claims hold what, whatever happens to this process, the kubelet or the claims' objects."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ..._shared._base.dra import checkpoint as form
from ..._shared._base.dra.checkpoint import HINT, PreparedClaim
from ..._shared._base.errors import NodeError
from ..._shared._machine.host import Host
from ...tools import bounded, files
from ..values import Share
from .plan import shares

ALONE: Final = 10.0  # seconds that a process before this one may take to end
LONGEST: Final = 64 << 20  # far above what the most claims of a node come to


class Checkpoint:
    """Claims by their UIDs; what is put or dropped is on the disk when the call returns. Any thread may call."""

    def __init__(self, path: Path) -> None:
        """NodeError: the file can't be read or is damaged, so what claims hold is not known.

        Or another process has it, which is waited for a while: two would each forget what the other did.
        """
        self._path, self._lock = path, threading.Lock()
        self._alone = ExitStack()
        self._alone.enter_context(Host().lock(f"{path}.lock", timeout=ALONE))
        self._claims = form.load(_read(path), str(path))
        self._entries = {uid: form.entry(held) for uid, held in self._claims.items()}

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        """All claims, as they are now."""
        with self._lock:
            return dict(self._claims)

    def get(self, uid: str) -> PreparedClaim | None:
        """Return a claim, None where it holds nothing."""
        with self._lock:
            return self._claims.get(uid)

    def shares(self, enforcement: str) -> list[Share]:
        """Return the shares that are prepared with an enforcement, or are about to be."""
        held = (one for one in self.claims.values() if one.state != form.UNPREPARING)
        return [each for one in held if one.enforcement == enforcement for each in shares(one)]

    def put(self, held: PreparedClaim) -> None:
        """Write a claim down, in place of what is there of it. NodeError: what was there still is."""
        with self._lock:
            self._write({**self._entries, held.uid: form.entry(held)})
            self._claims[held.uid] = held

    def drop(self, uid: str) -> None:
        """Forget a claim. NodeError: it is still there."""
        with self._lock:
            self._write({key: one for key, one in self._entries.items() if key != uid})
            self._claims.pop(uid, None)

    def _write(self, entries: dict[str, str]) -> None:
        try:
            files.replace(self._path, form.dump(entries), 0o600, durable=True)
        except OSError as error:
            cause = error.strerror or str(error)
            hint = "see that its folder is there, writable and not full"
            raise NodeError(f"can't write {self._path}", cause=cause, hint=hint) from error
        self._entries = entries


def _read(path: Path) -> str | None:
    try:
        return bounded.read_text(path, LONGEST)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise NodeError(f"{path} can't be read", cause=str(error), hint=HINT) from error
