# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Requests to the Kubernetes API for a node's ResourceSlices.

The kubelet's own credential may do all of it: the node authorizer lets a node list, watch, create,
replace and delete the slices that name it, and admission keeps it from those that name another. The
authorizer does not know a slice that is gone, so that the answer is 403 where others get 404.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .._shared._base.dra import versions
from .._shared._base.dra.names import DRIVER
from .._shared._cluster.machine.api import FORBIDDEN, MISSING, ApiError, if_there, understood
from ..cluster import watch
from ..cluster.access import Access, version

GROUP: Final = "resource.k8s.io/v1"
PATH: Final = f"/apis/{GROUP}/resourceslices"
NEWER: Final = f"use Kubernetes {versions.text(versions.RECOMMENDED)}"
TOO_OLD: Final = f"{NEWER}, or give the GPUs to the device plugin"
RIGHTS: Final = (
    "give the kubeconfig's user the right to list, watch, create, update and delete the "
    "ResourceSlices of this node, as a kubelet has it"
)
Json = dict[str, Any]


class SliceApi:
    """The slices of our driver on one node.

    Raises:
        ApiError: if the API can't be asked, or refuses.
    """

    def __init__(self, access: Access, node: str) -> None:
        self._access, self._node = access, node
        self._query = {"fieldSelector": f"spec.nodeName={node},spec.driver={DRIVER}"}
        self._safe = False

    def all(self) -> tuple[list[Json], str]:
        """Return the slices, and the version from which a watch goes on."""
        doing = "listing ResourceSlices"
        answer = if_there(lambda: self._ask(doing, "GET", PATH, query=self._query))
        if answer is None:
            cause = f"it does not serve {GROUP}"
            raise ApiError(doing, cause, status=MISSING, hint=TOO_OLD)
        return understood(
            doing, lambda: (list(answer["items"] or []), str(answer["metadata"]["resourceVersion"]))
        )

    def follow(self, version: str, seconds: int) -> Iterator[watch.Event]:
        """Yield the events of so many seconds."""
        ends, doing, lasted = time.monotonic() + seconds, "watching ResourceSlices", False
        where = (self._access, doing, PATH, version, seconds)
        try:
            for event in watch.events(*where, query=self._query, rights=RIGHTS):
                if event.kind:
                    yield event
            lasted = time.monotonic() >= ends
        finally:  # before its time, as where the server is replaced by one of another version
            self._safe = self._safe and lasted

    def owner(self) -> Json:
        """Return the reference to the node, with which its slices are removed."""
        uid = self._ask(
            f"reading node {self._node}",
            "GET",
            f"/api/v1/nodes/{self._node}",
            look=lambda node: str(node["metadata"]["uid"]),
        )
        node = {"apiVersion": "v1", "kind": "Node", "name": self._node}
        return {**node, "uid": uid, "controller": True}

    def unsafe(self) -> str:
        """Return why the server's version is not safe with our slices, empty if it is, or is not known.

        A safe one is asked again once it has broken off a watch.
        """
        if self._safe:
            return ""
        try:
            server_version = version(self._access)
        except ApiError:
            return ""
        why = versions.refusal(server_version) if server_version else ""
        self._safe = not why
        return why and f"the API server is of {why}; {NEWER}"

    def trial(self, spec: Json) -> Json:
        """Return a slice as it would be stored; nothing is."""
        doing, body = "trying a ResourceSlice", _body({"generateName": "trial-"}, spec)
        return self._written(doing, "POST", PATH, body, query={"dryRun": "All"})

    def create(self, name: str, spec: Json, owner: Json) -> Json:
        """Create a slice that belongs to the node; return it as it is stored."""
        body = _body({"name": name, "ownerReferences": [owner]}, spec)
        return self._written(f"creating ResourceSlice {name}", "POST", PATH, body)

    def replace(self, before: Mapping[str, Any], spec: Json) -> Json:
        """Replace a slice, unless somebody else has changed it; return it as it is stored."""
        meta = before["metadata"]
        path, body = f"{PATH}/{meta['name']}", _body(dict(meta), spec)
        try:
            return self._written(f"replacing ResourceSlice {meta['name']}", "PUT", path, body)
        except ApiError as error:
            if self._gone(error, meta["name"]):
                error.status = MISSING
            raise

    def delete(self, before: Mapping[str, Any]) -> None:
        """Delete a slice, unless somebody else has changed it or it is gone."""
        meta = before["metadata"]
        preconditions = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        path = f"{PATH}/{meta['name']}"
        try:
            self._ask(f"deleting ResourceSlice {meta['name']}", "DELETE", path, body)
        except ApiError as error:
            if not self._gone(error, meta["name"]):
                raise

    def _gone(self, error: ApiError, name: str) -> bool:
        if error.status != FORBIDDEN:
            return error.status == MISSING
        return name not in {published["metadata"]["name"] for published in self.all()[0]}

    def _written(self, doing: str, method: str, path: str, body: Json, **more: Any) -> Json:
        result: Json = self._ask(
            doing,
            method,
            path,
            body,
            look=lambda answer: {**answer, "spec": dict(answer["spec"])},
            **more,
        )
        return result

    def _ask(
        self, doing: str, method: str, path: str, body: Json | None = None, **more: Any
    ) -> Any:
        return self._access.ask(doing, method, path, body, rights=RIGHTS, **more)


def _body(meta: Json, spec: Json) -> Json:
    return {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": meta, "spec": spec}
