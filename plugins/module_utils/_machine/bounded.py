# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The machine for those who only look at it: no command may take for ever, and one can begin before it is asked for."""

from __future__ import annotations

import concurrent.futures
import threading
import typing as t

from .host import Completed, Host

SECONDS = 30.0


class BoundedHost(Host):
    """The machine, on which commands without a timeout of their own get one."""

    def run(self, argv: t.Sequence[str], **how: t.Any) -> Completed:
        """As Host does; ``how`` is what it takes."""
        return super().run(argv, **{**how, "timeout": how.get("timeout") or SECONDS})


class AheadHost(BoundedHost):
    """The machine for those who look at it and know early what they will ask."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: t.Dict[t.Tuple[str, ...], concurrent.futures.Future[Completed]] = {}

    def begin(self, argv: t.Sequence[str], **how: t.Any) -> None:
        """Begin a command whose answer the next run of it gets. Nobody waits for one that is never asked for."""
        future: concurrent.futures.Future[Completed] = concurrent.futures.Future()

        def work() -> None:
            try:
                future.set_result(super(AheadHost, self).run(argv, **how))
            except Exception as error:
                future.set_exception(error)

        self._begun[tuple(argv)] = future
        threading.Thread(target=work, daemon=True).start()

    def run(self, argv: t.Sequence[str], **how: t.Any) -> Completed:
        """As Host does, or the answer of what has begun."""
        begun = self._begun.pop(tuple(argv), None)
        return super().run(argv, **how) if begun is None else begun.result()
