# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What those see that watch: changes of what they have chosen, bookmarks of all others, and that the past is gone."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.fakes.kubernetes.standin import lists
from tests.fakes.kubernetes.standin.answers import Refused
from tests.fakes.kubernetes.standin.requests import Request
from tests.fakes.kubernetes.standin.resources import Asked
from tests.fakes.kubernetes.standin.selectors import selection
from tests.fakes.kubernetes.standin.store import Change

if TYPE_CHECKING:
    from tests.fakes.kubernetes.standin.api import StandIn

Json = dict[str, Any]
TICK = 0.2  # seconds
NUMBER = 'resourceVersion: Invalid value: "{}": strconv.ParseUint: parsing "{}": invalid syntax'


class Watch:
    """``seen`` are the scene's counts of ends and cuts of before anybody could know of the request."""

    def __init__(self, api: StandIn, request: Request, asked: Asked, seen: tuple[int, int]) -> None:
        self._api, self._request, self._asked = api, request, asked
        self._epoch, self._cuts = seen
        self._chosen = selection(asked.resource, request.query)
        self._left = float(request.query.get("timeoutSeconds") or 1800)
        self._marks = request.query.get("allowWatchBookmarks") == "true"
        version = request.query.get("resourceVersion") or "0"
        if not version.isdigit():
            raise Refused(500, NUMBER.format(version, version), reason=None)
        self._version = int(version)

    def events(self) -> Iterator[Json | None]:
        """Yield events until the time is over; None: the connection breaks."""
        if self._version == 0:
            yield from self._begun()
        while True:
            with self._api.news:
                if self._api.cuts != self._cuts:
                    yield None
                    return
                if self._api.epoch != self._epoch or self._left <= 0:
                    return
                if self._version < self._api.objects.oldest:
                    yield {"type": "ERROR", "object": self._gone()}
                    return
                if self._version == self._api.objects.version:
                    self._left -= 0 if self._api.news.wait(TICK) else TICK
                    continue
                found = list(self._news())
            yield from found

    def _begun(self) -> Iterator[Json]:
        with self._api.news:
            self._version = self._api.objects.version
            some = self._api.objects.of(self._asked.resource, self._asked.namespace)
            found = [copy.deepcopy(one) for one in some if self._chosen(one)]
        for one in found:
            yield self._event("ADDED", one)

    def _news(self) -> Iterator[Json]:
        """Yield what has happened since."""
        store, shown = self._api.objects, False
        since, self._version = self._version, store.version
        for change in store.changes:
            if change.version > since and (event := self._of(change)):
                shown = change.version == store.version
                yield event
        if self._marks and not shown:
            yield self._mark()

    def _of(self, change: Change) -> Json | None:
        about = change.about
        here = about.resource is self._asked.resource
        if not here or self._asked.namespace not in ("", about.namespace):
            return None
        was = change.before is not None and self._chosen(change.before)
        now = change.kind != "DELETED" and self._chosen(change.now)
        if not was and not now:
            return None
        kind = "DELETED" if not now else "MODIFIED" if was else "ADDED"
        return self._event(kind, change.now)

    def _event(self, kind: str, one: Json) -> Json:
        return {"type": kind, "object": lists.shown(one, self._request)}

    def _mark(self) -> Json:
        resource = self._asked.resource
        meta = {"resourceVersion": str(self._version)}
        found: Json = {"kind": resource.kind, "apiVersion": resource.api, "metadata": meta}
        return self._event("BOOKMARK", found)

    def _gone(self) -> Json:
        message = f"too old resource version: {self._version} ({self._api.objects.oldest})"
        return Refused(410, message).body()
