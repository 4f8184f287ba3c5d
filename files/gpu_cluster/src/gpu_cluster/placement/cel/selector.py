# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A selector of devices, whose answers are remembered. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

from ..values import Device
from .compile import program
from .errors import CelError, not_understood
from .reads import Read, key, reads
from .syntax import parse
from .tokens import BadWord

_MOST_REMEMBERED = 100_000


class Selector:
    """A CEL expression over a device."""

    def __init__(
        self, expression: str, run: Callable[[Device], bool], read: tuple[Read, ...] | None
    ) -> None:
        self.expression = expression
        self._run = run
        self._read = read
        self._known: dict[Hashable, bool | CelError] = {}

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(expression: str) -> Selector:
        """Return the selector of an expression. NodeError: it is not understood."""
        try:
            form = parse(expression)
            return Selector(expression, program(form), reads(form))
        except BadWord as error:
            raise not_understood(expression, str(error)) from error

    def matches(self, device: Device) -> bool:
        """Return whether a device is selected. CelError: it can't be told, as where an attribute is missing."""
        if self._read is None:
            return self._run(device)
        seen = key(device, self._read)
        if seen not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[seen] = self._answer(device)
        answer = self._known[seen]
        if isinstance(answer, CelError):
            raise answer
        return answer

    def _answer(self, device: Device) -> bool | CelError:
        try:
            return self._run(device)
        except CelError as error:
            return error
