# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Answers that are held until a test lets them go."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Gate:
    """``held`` counts the requests that came to it."""

    def __init__(self, method: str, path: str) -> None:
        self.method, self.path, self.held = method, path, 0
        self._open = threading.Event()

    def open(self) -> None:
        """Let all answers go, those to come as well."""
        self._open.set()

    def keep(self, method: str, path: str) -> None:
        """Hold a request that it is for."""
        if method == self.method and self.path in path and not self._open.is_set():
            self.held += 1
            self._open.wait()


class Gates:
    """What holds answers."""

    def __init__(self) -> None:
        self._gates: list[Gate] = []

    @contextlib.contextmanager
    def hold(self, method: str, path: str = "") -> Iterator[Gate]:
        """Hold answers to requests of a method, WATCH as well, whose path has this in it, until the end or open()."""
        gate = Gate(method, path)
        self._gates.append(gate)
        try:
            yield gate
        finally:
            self._gates.remove(gate)
            gate.open()

    def keep(self, method: str, path: str) -> None:
        """Hold a request as long as it has to be."""
        for gate in list(self._gates):
            gate.keep(method, path)

    def open_gates(self) -> None:
        """Let all answers go."""
        for gate in list(self._gates):
            gate.open()
