# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a capability has added to a node, kept in a file so that it can be taken back."""

from __future__ import annotations

import dataclasses
import typing as t

from .._core.packages.repository import is_trusted
from .._host.api import Host
from .._host.packages.api import PackageManager


class Record(t.Protocol):
    """Additions, a dataclass; false where there are none."""

    __dataclass_fields__: t.ClassVar[t.Dict[str, t.Any]]

    def dump(self) -> str:
        """Return the record's text."""


R = t.TypeVar("R", bound=Record)


class Recorded(t.Generic[R]):
    """The part of a capability that knows its record: its ``record_path``, and how to load it."""

    _host: Host
    record_path: str

    def _load_record(self, text: t.Optional[str], path: str) -> R:
        """Parse the record; NodeError where it is damaged."""
        raise NotImplementedError

    def _record(self) -> R:
        return self._load_record(self._host.read(self.record_path), self.record_path)

    def _remember(self, **additions: t.Any) -> None:
        """Write down what is about to be added."""
        record = dataclasses.replace(self._record(), **additions)
        if record:
            self._host.write(self.record_path, record.dump(), mode=0o644)
        else:
            self._host.remove(self.record_path)


def distrust(manager: PackageManager, keys: t.Collection[str]) -> None:
    """Have rpm forget those of the keys, given by their fingerprints, that it was taught."""
    there = [one for one in manager.trusted() if any(is_trusted(key, [one]) for key in keys)]
    if there:
        manager.distrust(there)
