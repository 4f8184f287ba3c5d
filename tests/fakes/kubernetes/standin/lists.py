# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects and lists of them as they are sent."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

from tests.fakes.kubernetes.standin.answers import Refused
from tests.fakes.kubernetes.standin.requests import Request
from tests.fakes.kubernetes.standin.resources import Asked
from tests.fakes.kubernetes.standin.selectors import selection
from tests.fakes.kubernetes.standin.store import Store

Json = dict[str, Any]
OLD_LIST = "The resourceVersion for the provided list is too old."
OLD_PART = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list"
    " without the continue parameter, or use the continue token in this response to retrieve the remainder of the"
    " results. Continuing with the provided token results in an inconsistent list - objects that were created,"
    " modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
PARTIAL = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}


def listed(asked: Asked, request: Request, store: Store) -> Json:
    """Return the objects that are asked for, or a part of them. Refused."""
    query, resource = request.query, asked.resource
    with store.news:
        if query.get("resourceVersionMatch") and int(query["resourceVersion"]) < store.oldest:
            raise Refused(410, OLD_LIST)
        chosen = selection(resource, query)
        every = [one for one in store.of(resource, asked.namespace) if chosen(one)]
        after, version = _continued(query.get("continue", ""), store)
        rest = [one for one in every if _key(one) > after]
        size = int(query.get("limit") or 0) or len(rest)
        meta: Json = {"resourceVersion": str(version)}
        if len(rest) > size:
            meta["continue"] = _token(_key(rest[size - 1]), version)
            if not {"labelSelector", "fieldSelector"} & query.keys():
                meta["remainingItemCount"] = len(rest) - size
        return items(asked, request, copy.deepcopy(rest[:size]), meta)


def items(asked: Asked, request: Request, some: list[Json], meta: Json) -> Json:
    """Return a list of objects, which do not say of what kind they are where that is known."""
    if "as=PartialObjectMetadata" in request.accept:
        found = [partly(one) for one in some]
        return {**PARTIAL, "kind": "PartialObjectMetadataList", "metadata": meta, "items": found}
    resource = asked.resource
    if resource.kind != "NodeFeature":  # a custom resource
        some = [{key: one[key] for key in one if key not in ("kind", "apiVersion")} for one in some]
    about = {"kind": f"{resource.kind}List", "apiVersion": resource.api}
    return {**about, "metadata": meta, "items": some}


def partly(one: Json) -> Json:
    """Return the metadata of an object."""
    return {**PARTIAL, "metadata": one["metadata"]}


def shown(one: Json, request: Request) -> Json:
    """Return an object as it is asked for."""
    return partly(one) if "as=PartialObjectMetadata" in request.accept else one


def _key(one: Json) -> list[str]:
    return [one["metadata"].get("namespace", ""), one["metadata"]["name"]]


def _token(after: list[str], version: int) -> str:
    return base64.b64encode(json.dumps([after, version]).encode()).decode()


def _continued(token: str, store: Store) -> tuple[list[str], int]:
    if not token:
        return [], store.version
    after, version = json.loads(base64.b64decode(token))
    if version < store.oldest:
        raise Refused(410, OLD_PART, meta={"continue": _token(after, store.version)})
    return after, version
