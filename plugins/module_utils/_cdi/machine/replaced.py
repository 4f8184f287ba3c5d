# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Specifications of somebody else that ours have replaced, which come back with state absent."""

from __future__ import annotations

import json
import stat
import typing as t

from ..._base.errors import readable
from ..._base.text import json_data
from ..._machine.host import Host

RECORD = "/var/lib/gpu-node/cdi.json"


class Replaced(t.NamedTuple):
    """A file as it was before: its text, its mode, and the numbers of its owner and group."""

    text: str
    mode: int
    uid: int
    gid: int


def load(host: Host) -> t.Dict[str, Replaced]:
    """Return the replaced files by path.

    Raises:
        NodeError: if the record can't be read or understood.
    """
    with readable(
        RECORD, "restore it from a backup, or remove it; then no specification comes back"
    ):
        record = json_data.loads(host.read(RECORD) or "{}")
        return {
            str(path): Replaced(
                str(entry["text"]), *(int(entry[name]) for name in Replaced._fields[1:])
            )
            for path, entry in record.items()
        }


def keep(host: Host, path: str) -> None:
    """Record a file before it is replaced."""
    text, status = host.read(path), host.status(path)
    if text is not None and status is not None:
        mode = stat.S_IMODE(status.mode)
        _store(host, {**load(host), path: Replaced(text, mode, status.uid, status.gid)})


def restore(host: Host, path: str) -> None:
    """Put a file back, or remove ours if it has replaced none."""
    record = load(host)
    replaced = record.pop(path, None)
    if replaced is None:
        host.remove(path)
        return
    host.write(path, replaced.text, mode=replaced.mode)
    host.chown(path, replaced.uid, replaced.gid)
    _store(host, record)


def _store(host: Host, record: t.Mapping[str, Replaced]) -> None:
    if record:
        data = {path: replaced._asdict() for path, replaced in record.items()}
        host.write(RECORD, json.dumps(data) + "\n", mode=0o600)
    else:
        host.remove(RECORD)
