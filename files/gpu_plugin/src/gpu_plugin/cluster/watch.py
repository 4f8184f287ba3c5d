# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""List, then watch, as client-go's Reflector does it: the loop, and the events of one watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from .._shared._cluster.machine.api import GONE, JSON, ApiError, understood
from ..tools.chores import Backoff
from .access import Access

SECONDS: Final = (300, 600)  # of one watch, as client-go's
SHORTEST: Final = (
    30.0  # a server that ends watches sooner, or a proxy, is asked less and less often
)
DELETED, BOOKMARK = "DELETED", "BOOKMARK"
CHANGED: Final = ("ADDED", "MODIFIED")
Json = Mapping[str, Any]


class Event(NamedTuple):
    """An event, and the version that a watch goes on from; without a kind the watch has just begun."""

    kind: str
    content: Json  # the object
    version: str


def events(
    access: Access,
    doing: str,
    path: str,
    version: str,
    seconds: int,
    *,
    query: Mapping[str, str],
    accept: str = JSON,
    rights: str = "",
) -> Iterator[Event]:
    """Yield the events of a watch of so many seconds, which goes on from a version.

    Raises:
        ApiError: if the watch fails; with the status GONE a new list is needed.
    """
    asked = {
        **query,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(seconds),
    }
    for line in access.events(doing, path, asked, accept=accept, seconds=seconds, rights=rights):
        event = _event(doing, line) if line else Event("", {}, version)
        version = event.version
        yield event


def _event(doing: str, event: Json) -> Event:
    kind, content = understood(doing, lambda: (str(event["type"]), dict(event["object"])))
    if kind == "ERROR":
        status = understood(doing, lambda: int(content.get("code") or GONE))
        raise ApiError(doing, f"{status} {content.get('message', '')}", status=status)
    version = understood(doing, lambda: str(content["metadata"]["resourceVersion"]))
    return Event(kind, content, version)


def follow(
    begin: Callable[[], str],
    watch: Callable[[str], Iterator[str]],
    failed: Callable[[ApiError], object],
    stopping: threading.Event,
    backoff: Backoff,
    known: Collection[int] = (),
) -> None:
    """Watch until ``stopping`` is set, each time from where the watch before ended.

    Args:
        begin: Lists, and returns the version; called first, and after each failure but those of a ``known`` status.
        watch: Takes a version, and yields that of each event.
        failed: Called with each failure.
        stopping: Ends it.
        backoff: The pauses after failures.
        known: The statuses of failures after which the version is still known.
    """
    version = ""
    while not stopping.is_set():
        began, ended = float("inf"), False
        try:
            if not version:
                version = begin()
                continue
            began = time.monotonic()
            for latest in watch(version):
                version = latest
                if stopping.is_set():
                    return
            ended = True
        except (Exception, SystemExit) as error:  # it must not end the thread unnoticed
            problem = error if isinstance(error, ApiError) else None
            if problem is None:
                text = f"{error.__class__.__name__}: {error}"
                problem = ApiError("following objects", text, status=-1)
            if problem.status not in known:
                version = ""
            failed(problem)
        lasted = time.monotonic() - began >= SHORTEST
        if lasted:
            backoff.reset()
        if not (lasted and ended):
            stopping.wait(backoff.failed())
