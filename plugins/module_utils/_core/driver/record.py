# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What nvidia_driver has added to a node, written down so that it can be taken back."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ..errors import damaged
from ..text import json_data
from ..text.shown import shown


@dataclasses.dataclass(frozen=True)
class Record:
    """The additions: packages (those asked for among them), holds, a sources file, a service.

    ``modprobe`` says that our modprobe file, or what an initramfs has of it, must go. ``repository``
    says that the files of a repository are there, ``keys`` are the fingerprints that rpm was taught.
    ``runfile`` is what NVIDIA's installer brought, "version flavour", or "?" where it was cut off.
    ``stream`` is the module stream that was enabled, ``stream_before`` the one that was enabled then.
    """

    packages: t.FrozenSet[str] = frozenset()
    requested: t.FrozenSet[str] = frozenset()
    holds: t.FrozenSet[str] = frozenset()
    sources: bool = False
    service: bool = False
    modprobe: bool = False
    fabric: bool = False
    repository: bool = False
    keys: t.FrozenSet[str] = frozenset()
    runfile: str = ""
    stream: str = ""
    stream_before: str = ""

    def __bool__(self) -> bool:
        """Tell whether anything was added."""
        return self != Record()

    def dump(self) -> str:
        """Return the record's text."""
        values = dataclasses.asdict(self)
        values = {
            key: sorted(value) if isinstance(value, frozenset) else value
            for key, value in values.items()
        }
        return json.dumps(values, indent=1) + "\n"


def _names(value: t.Any) -> t.FrozenSet[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"expected a list of names, found {shown(value)}")
    return frozenset(value)


def load(text: t.Optional[str], path: str) -> Record:
    """Parse a record; a node without one has had no additions."""
    if text is None:
        return Record()
    try:
        values = json_data.loads(text)
        return Record(
            packages=_names(values.get("packages", [])),
            requested=_names(values.get("requested", [])),
            holds=_names(values.get("holds", [])),
            sources=values.get("sources") is True,
            service=values.get("service") is True,
            modprobe=values.get("modprobe") is True,
            fabric=values.get("fabric") is True,
            repository=values.get("repository") is True,
            keys=_names(values.get("keys", [])),
            runfile=str(values.get("runfile", "")),
            stream=str(values.get("stream", "")),
            stream_before=str(values.get("stream_before", "")),
        )
    except (ValueError, AttributeError, TypeError) as error:
        hint = "remove the file; what earlier runs added then counts as your own"
        raise damaged(path, error, hint) from error
