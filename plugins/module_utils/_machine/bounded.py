# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The machine for callers that only read it: commands have a timeout, and can be started in advance."""

from __future__ import annotations

import concurrent.futures
import threading
import typing as t

from .host import Completed, Host

SECONDS = 30.0


class BoundedHost(Host):
    """The machine, on which commands without a timeout of their own get one."""

    def run(self, argv: t.Sequence[str], **options: t.Any) -> Completed:
        """Run a command as Host does; ``options`` are those of Host.run."""
        return super().run(argv, **{**options, "timeout": options.get("timeout") or SECONDS})


class AheadHost(BoundedHost):
    """The machine for callers that know early which commands they will run."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: t.Dict[t.Tuple[str, ...], concurrent.futures.Future[Completed]] = {}

    def begin(self, argv: t.Sequence[str], **options: t.Any) -> None:
        """Start a command in a thread; the next run of it returns its result. No exit waits for the thread."""
        future: concurrent.futures.Future[Completed] = concurrent.futures.Future()

        def work() -> None:
            try:
                future.set_result(super(AheadHost, self).run(argv, **options))
            except Exception as error:
                future.set_exception(error)

        self._begun[tuple(argv)] = future
        threading.Thread(target=work, daemon=True).start()

    def run(self, argv: t.Sequence[str], **options: t.Any) -> Completed:
        """Return the result of the command if it was begun; otherwise run it."""
        begun = self._begun.pop(tuple(argv), None)
        return super().run(argv, **options) if begun is None else begun.result()
