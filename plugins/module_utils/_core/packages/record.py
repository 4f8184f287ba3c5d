# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a capability has added to a node, written down so that it can be removed again."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ..errors import readable
from ..text import json_data
from ..text.shown import shown

R = t.TypeVar("R", bound="Record")


@dataclasses.dataclass(frozen=True)
class Record:
    """The additions: packages, holds, keys that rpm was taught, and the files of a repository.

    Each capability adds fields of its own, which are sets of names, flags or texts as well.
    """

    packages: t.FrozenSet[str] = frozenset()
    holds: t.FrozenSet[str] = frozenset()
    keys: t.FrozenSet[str] = frozenset()
    repository: bool = False

    def __bool__(self) -> bool:
        """Tell whether anything was added."""
        return self != type(self)()

    def dump(self) -> str:
        """Return the record's text."""
        values = {
            key: sorted(value) if isinstance(value, frozenset) else value
            for key, value in dataclasses.asdict(self).items()
        }
        return json.dumps(values, indent=1) + "\n"

    @classmethod
    def load(cls: t.Type[R], text: t.Optional[str], path: str) -> R:
        """Parse a record; a node without one has had no additions."""
        if text is None:
            return cls()
        with readable(path, "remove the file; what earlier runs added then counts as your own"):
            values = json_data.loads(text)
            fields = {one.name: one.default for one in dataclasses.fields(cls)}
            return cls(
                **{name: _read(values.get(name, one), type(one)) for name, one in fields.items()}
            )


def _read(value: t.Any, kind: type) -> t.Any:
    if kind is not frozenset:
        return value is True if kind is bool else str(value)
    names = value if isinstance(value, (list, frozenset)) else [None]
    if not all(isinstance(one, str) for one in names):
        raise TypeError(f"expected a list of names, found {shown(value)}")
    return frozenset(names)
