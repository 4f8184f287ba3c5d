# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in for what the Kubernetes API has of ResourceSlices, and what can go wrong with it.

test_publish_genuine.py compares its answers with those of a genuine API server.
"""

from __future__ import annotations

import copy
import json
import time
import uuid
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from gpu_plugin.dra.slice_api import PATH

from tests.fakes.kubernetes.standin_api import NODE, Api, _Handler

Json = dict[str, Any]
TIME = "2026-11-22T00:00:00Z"


class Slices(Api):
    """``slices`` are the objects by name, ``log`` what happened to them. ``drops`` are fields that it forgets."""

    def __init__(self, *args: Any) -> None:
        self.slices: dict[str, Json] = {}
        self.log: list[tuple[int, str, Json]] = []
        self.drops: tuple[str, ...] = ()
        super().__init__(*args)

    def handler(self) -> type[_Handler]:
        return _SliceHandler

    def writes(self) -> list[tuple[str, str]]:
        """What was written, by method and name."""
        return [
            (method, path.rpartition("/")[2])
            for method, path in self.requests
            if method in ("POST", "PUT", "DELETE") and path.startswith(PATH)
        ]

    def wipe(self) -> None:
        """Delete all slices, as a kubelet does."""
        with self.news:
            for name in list(self.slices):
                self.change("DELETED", self.slices.pop(name))

    def change(self, kind: str, found: Json) -> Json:
        """Note what happened to a slice, which has a new version then; to be called with ``news`` held."""
        self.version += 1
        found = {**found, "metadata": {**found["metadata"], "resourceVersion": str(self.version)}}
        self.log.append((self.version, kind, found))
        self.news.notify_all()
        return found

    def stored(self, body: Json, meta: Json) -> Json:
        """A slice as it is kept: taints have a time, and what a feature gate has off is not there."""
        spec = _without(copy.deepcopy(body["spec"]), self.drops)
        for device in spec.get("devices", ()):
            for taint in device.get("taints", ()):
                taint.setdefault("timeAdded", TIME)
        return {**body, "metadata": meta, "spec": spec}


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _without(one, keys) for key, one in value.items() if key not in keys}
    return [_without(one, keys) for one in value] if isinstance(value, list) else value


class _SliceHandler(_Handler):
    owner: Slices

    def do_GET(self) -> None:  # noqa: N802
        if not self._begin():
            return
        if self.where.path == f"/api/v1/nodes/{NODE}":
            self._send(HTTPStatus.OK, self.owner.shown())
        elif self.where.path != PATH:
            self._fail(HTTPStatus.NOT_FOUND, "not found")
        else:
            wanted = dict(parse_qsl(self.where.query))["fieldSelector"]
            self.selected = dict(one.split("=") for one in wanted.split(","))
            if "watch" in self.asked:
                self._follow()
            else:
                self._list()

    def _list(self) -> None:
        with self.owner.news:
            items = [one for one in self.owner.slices.values() if self._matches(one)]
            meta = {"resourceVersion": str(self.owner.version)}
            found = copy.deepcopy({"kind": "ResourceSliceList", "metadata": meta, "items": items})
        self._send(HTTPStatus.OK, found)

    def _matches(self, one: Json) -> bool:
        spec = {f"spec.{key}": one["spec"].get(key) for key in ("nodeName", "driver")}
        return all(spec[key] == value for key, value in self.selected.items())

    def do_POST(self) -> None:  # noqa: N802
        if not self._begin():
            return
        api, name = self.owner, self.body["metadata"]["name"]
        with api.news:
            if there := name in api.slices:
                message = f'resourceslices.resource.k8s.io "{name}" already exists'
            else:
                meta = {**self.body["metadata"], "uid": str(uuid.uuid4())}
                found = api.slices[name] = api.change("ADDED", api.stored(self.body, meta))
        if there:
            self._fail(HTTPStatus.CONFLICT, message, "AlreadyExists")
        else:
            self._send(HTTPStatus.CREATED, found)

    def do_PUT(self) -> None:  # noqa: N802
        if not self._begin():
            return
        api, name = self.owner, self.where.path.rpartition("/")[2]
        with api.news:
            before, meta = api.slices.get(name), self.body["metadata"]
            known = before and before["metadata"]["resourceVersion"] == meta["resourceVersion"]
            if known:
                found = api.slices[name] = api.change("MODIFIED", api.stored(self.body, meta))
        if known:
            self._send(HTTPStatus.OK, found)
        elif before:
            self._fail(HTTPStatus.CONFLICT, "the object has been modified")
        else:
            self._unknown()

    def do_DELETE(self) -> None:  # noqa: N802
        if not self._begin():
            return
        api, name = self.owner, self.where.path.rpartition("/")[2]
        with api.news:
            before, asked = api.slices.get(name), self.body["preconditions"]
            known = before and all(before["metadata"][key] == asked[key] for key in asked)
            if before and known:
                api.change("DELETED", api.slices.pop(name))
        if known:
            self._send(HTTPStatus.OK, {"kind": "Status", "status": "Success"})
        elif before:
            self._fail(
                HTTPStatus.CONFLICT, "the ResourceVersion in the precondition does not match"
            )
        else:
            self._unknown()

    def _unknown(self) -> None:
        """The node authorizer lets a node do something with its own slices, and knows no other."""
        self._fail(HTTPStatus.FORBIDDEN, "no relationship found between node and this object")

    def _follow(self) -> None:
        """Send what happens to the slices."""
        api, seen = self.owner, int(self.asked["resourceVersion"])
        deadline = time.monotonic() + float(self.asked["timeoutSeconds"])
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        while time.monotonic() < deadline and api.epoch == self.epoch:
            with api.news:
                if api.cuts != self.cuts:
                    return self._break()
                gone = seen < api.oldest
                events = [one for one in api.log if one[0] > seen and self._matches(one[2])]
                if not gone and not events:
                    api.news.wait(0.05)
                    continue
                seen = api.version
            if gone:
                status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}
                self._event("ERROR", status)
                break
            for _version, kind, found in events:
                self._send_event(kind, found)
        self._chunk(b"")
        return None

    def _send_event(self, kind: str, found: Json) -> None:
        self._chunk(json.dumps({"type": kind, "object": found}).encode() + b"\n")
