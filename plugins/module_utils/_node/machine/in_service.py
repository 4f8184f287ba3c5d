# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The change in service on a node that has begun and not ended."""

from __future__ import annotations

import hashlib
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from ..in_service import MARKER, OLDER, Change, parse


class Standing(t.NamedTuple):
    """The change, and the SHA-256 of its marker, empty for a marker of an earlier version."""

    change: Change
    digest: str = ""


def standing(host: Host) -> t.Optional[Standing]:
    """Return the change of the marker on the node, None if there is no marker.

    A marker that can't be read is an earlier version's.
    """
    try:
        data = host.read_bytes(MARKER)
    except NodeError:
        data = b""
    if data is None:
        older = (name for path, name in OLDER.items() if host.exists(path))
        return next((Standing(Change(name)) for name in older), None)
    return Standing(parse(data.decode("utf-8", "replace")), hashlib.sha256(data).hexdigest())


def as_data(host: Host) -> t.Dict[str, t.Any]:
    """Return the same for the results of modules, empty if there is none."""
    change = standing(host)
    return {**change.change._asdict(), "digest": change.digest} if change else {}
