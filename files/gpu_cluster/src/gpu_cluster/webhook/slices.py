# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The published devices, followed in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from gpu_plugin._shared._base.dra.names import DRIVER
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.cluster.access import JSON, Access
from gpu_plugin.cluster.errors import GONE, ApiError, understood
from gpu_plugin.cluster.rate import SHORTEST
from gpu_plugin.tools import logs
from gpu_plugin.tools.chores import Backoff

from ..hami.published import Device, Published, devices
from ..lists import parts
from .templates import API

PATH: Final = f"{API}/resourceslices"
SELECTED: Final = {"fieldSelector": f"spec.driver={DRIVER}"}
PAGE: Final = 50  # slices, of up to 128 devices
SECONDS: Final = 300
PAUSE, LONGEST_PAUSE = 1.0, 60.0  # after a failure, or a watch that somebody has ended at once
RIGHTS: Final = "give the webhook's ServiceAccount list and watch of resourceslices"
Json = Mapping[str, Any]


class Slices:
    """``published()`` is what was seen last; ``listed`` is set once there was a look at all."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._devices: dict[str, tuple[Device, ...]] = {}
        self._published: Published | None = None
        self.listed = threading.Event()
        self._ended = threading.Event()

    def published(self) -> Published:
        """Return the devices of all slices."""
        with self._lock:
            if self._published is None:
                self._published = Published(
                    tuple(device for one in self._devices.values() for device in one)
                )
            return self._published

    def end(self) -> None:
        """Follow no longer."""
        self._ended.set()

    def follow(self) -> None:
        """Follow until the end; what fails is tried again."""
        version, failed, pauses = "", "", Backoff(PAUSE, LONGEST_PAUSE)
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                version = self._watch(version or self._list())
                failed = ""
            except NodeError as error:
                version = ""
                if str(error) != failed and getattr(error, "status", 0) != GONE:
                    logs.warning("the ResourceSlices can't be followed", cause=error)
                    failed = str(error)
            if time.monotonic() - began >= SHORTEST:
                pauses.reset()
            else:
                self._ended.wait(pauses.failed())

    def _list(self) -> str:
        doing, found, version = "listing ResourceSlices", {}, ""
        for part in parts(self._access, doing, PATH, query=SELECTED, page=PAGE, rights=RIGHTS):
            found.update(understood(doing, partial(_by_name, part)))
            version = version or str((part.get("metadata") or {}).get("resourceVersion", ""))
        self._set(found)
        self.listed.set()
        return version

    def _watch(self, version: str) -> str:
        doing = "watching ResourceSlices"
        query = {
            **SELECTED,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(SECONDS),
        }
        for event in self._access.events(
            doing, PATH, query, accept=JSON, seconds=SECONDS, rights=RIGHTS
        ):
            if self._ended.is_set():
                break
            if event:
                version = understood(doing, partial(self._take, doing, event))
        return version

    def _take(self, doing: str, event: Json) -> str:
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            status = int(found.get("code") or 0)
            raise ApiError(doing, f"{status} {found.get('message', '')}", status=status)
        if kind in ("ADDED", "MODIFIED"):
            self._set({**self._devices, **_by_name({"items": [found]})})
        elif kind == "DELETED":
            gone = found["metadata"]["name"]
            self._set({name: one for name, one in self._devices.items() if name != gone})
        return str(found["metadata"]["resourceVersion"])

    def _set(self, found: dict[str, tuple[Device, ...]]) -> None:
        with self._lock:
            self._devices, self._published = found, None


def _by_name(part: Mapping[str, Any]) -> dict[str, tuple[Device, ...]]:
    return {str(one["metadata"]["name"]): tuple(devices(one)) for one in part["items"] or ()}
