# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The published devices, followed in a thread."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from gpu_plugin._shared._base.dra.names import DRIVER
from gpu_plugin._shared._cluster.machine.api import GONE, ApiError, parts, understood
from gpu_plugin.cluster import watch
from gpu_plugin.cluster.access import Access
from gpu_plugin.tools import logs
from gpu_plugin.tools.chores import Backoff

from ..hami.published import Device, Published, devices
from .templates import API

PATH: Final = f"{API}/resourceslices"
SELECTED: Final = {"fieldSelector": f"spec.driver={DRIVER}"}
PAGE: Final = 50  # slices, of up to 128 devices
SECONDS: Final = 300
PAUSE, LONGEST_PAUSE = 1.0, 60.0  # after a failure, or a watch that somebody has ended at once
RIGHTS: Final = "give the webhook's ServiceAccount list and watch of resourceslices"
Json = Mapping[str, Any]


class Slices:
    """The published devices as they were seen last; ``listed`` is set once they were listed."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._devices: dict[str, tuple[Device, ...]] = {}
        self._published: Published | None = None
        self.listed = threading.Event()
        self._ended = threading.Event()
        self._failed = ""

    def published(self) -> Published:
        """Return the devices of all slices."""
        with self._lock:
            if self._published is None:
                known = tuple(itertools.chain.from_iterable(self._devices.values()))
                self._published = Published(known)
            return self._published

    def end(self) -> None:
        """Follow no longer."""
        self._ended.set()

    def follow(self) -> None:
        """Follow until the end; what fails is tried again."""
        pauses = Backoff(PAUSE, LONGEST_PAUSE)
        watch.follow(self._list, self._watch, self._warn, self._ended, pauses)

    def _warn(self, error: ApiError) -> None:
        """Log a failure, unless it is the same as before."""
        if str(error) != self._failed and error.status != GONE:
            logs.warning("the ResourceSlices can't be followed", cause=error)
            self._failed = str(error)

    def _list(self) -> str:
        doing, by_name, version = "listing ResourceSlices", {}, ""
        for part in parts(self._access.ask, doing, PATH, query=SELECTED, page=PAGE, rights=RIGHTS):
            by_name.update(understood(doing, partial(_by_name, part)))
            version = version or understood(doing, partial(_version, part))
        self._set(by_name)
        self.listed.set()
        return version

    def _watch(self, since: str) -> Iterator[str]:
        doing = "watching ResourceSlices"
        where = self._access, doing, PATH, since, SECONDS
        for kind, slice_object, version in watch.events(*where, query=SELECTED, rights=RIGHTS):
            understood(doing, partial(self._take, kind, slice_object))
            yield version
        self._failed = ""

    def _take(self, kind: str, slice_object: Json) -> None:
        if kind in watch.CHANGED:
            self._set({**self._devices, **_by_name({"items": [slice_object]})})
        elif kind == watch.DELETED:
            gone = slice_object["metadata"]["name"]
            self._set({name: device for name, device in self._devices.items() if name != gone})

    def _set(self, by_name: dict[str, tuple[Device, ...]]) -> None:
        with self._lock:
            self._devices, self._published = by_name, None


def _version(part: Json) -> str:
    return str(part["metadata"]["resourceVersion"])


def _by_name(part: Mapping[str, Any]) -> dict[str, tuple[Device, ...]]:
    return {str(item["metadata"]["name"]): tuple(devices(item)) for item in part["items"] or ()}
