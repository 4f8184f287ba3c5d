# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""AdmissionReview of admission.k8s.io/v1: the API server's request, and the answer. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from gpu_plugin._shared._base.text import json_data
from gpu_plugin._shared._base.text.shown import cut, printable

from . import limits

API_VERSION: Final = "admission.k8s.io/v1"
LONGEST_WARNING, MOST_WARNINGS = 256, 16  # characters, above which API servers leave them out
LONGEST_MESSAGE: Final = 2048
# Statuses of a refusal for now. An API server hands the seconds to its client as Retry-After, which client-go obeys.
FOR_NOW: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
# An API server writes both before the object, and a quote in a name has a backslash before it.
UID: Final = re.compile(rb'"uid":\s*"([\w-]{1,64})"')
NAMESPACE: Final = re.compile(rb'"namespace":\s*"([-a-z0-9]{1,63})"')
LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
Json = Mapping[str, Any]
# The fields of a pod that are read, and the kind of each if an API server has sent it:
# a type, several of them, [the shape of each item], {field: shape}, or {ANY: the shape of each value}.
ANY: Final = ""
_TEXTS: Final = {ANY: str}
_AMOUNTS: Final = {ANY: (str, int, float)}
_CONTAINERS: Final = [
    {
        "name": str,
        "restartPolicy": str,
        "env": [{"name": str, "value": str}],
        "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS, "claims": [{"name": str}]},
        "securityContext": {"privileged": bool},
    }
]
POD: Final = {
    "metadata": {"annotations": _TEXTS},
    "spec": {
        "schedulerName": str,
        "nodeName": str,
        "resourceClaims": [{"name": str, "resourceClaimTemplateName": str}],
        "initContainers": _CONTAINERS,
        "containers": _CONTAINERS,
    },
}


class ReviewError(ValueError):
    """The body isn't a review of a pod's creation."""


@dataclass(frozen=True)
class Review:
    """A pod that is about to be created; nothing is made for a ``dry_run``."""

    uid: str
    namespace: str
    pod: Json
    dry_run: bool


def read_head(head: bytes) -> tuple[str, str]:
    """Return the uid and the namespace of a review from its first bytes, empty if they are not there."""
    uid, namespace = (pattern.search(head) for pattern in (UID, NAMESPACE))
    return (uid[1].decode() if uid else ""), (namespace[1].decode() if namespace else "")


def read(body: bytes) -> Review:
    """Return the review in a body.

    Raises:
        ReviewError: if it isn't a review of a pod's creation.
    """
    if sum(map(body.count, limits.MARKS)) > limits.MOST_MARKS:
        raise ReviewError("the body has more objects, lists and texts than a pod has")
    try:
        data = json.loads(body)
        for _level in json_data.levels(data):  # what works on a pod follows its nesting
            pass
    except RecursionError as error:
        raise ReviewError(f"the body is nested more than {json_data.DEEPEST} deep") from error
    except ValueError as error:
        raise ReviewError(f"the body is no JSON of a pod: {cut(str(error))}") from error
    kind = (data.get("apiVersion"), data.get("kind")) if isinstance(data, dict) else ()
    if kind != (API_VERSION, "AdmissionReview"):
        raise ReviewError(f"expected an AdmissionReview of {API_VERSION}")
    request = data.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise ReviewError("the review has no request with a uid")
    asked = request.get("kind") or {}
    named = (asked.get("group"), asked.get("kind")) if isinstance(asked, dict) else ()
    pod, namespace = request.get("object"), request.get("namespace")
    if named != ("", "Pod") or request.get("operation") != "CREATE" or not isinstance(pod, dict):
        raise ReviewError("expected the creation of a Pod: see the webhook's rules")
    if not isinstance(namespace, str) or not LABEL.fullmatch(namespace):
        raise ReviewError("the request has no namespace")
    if not fits(pod, POD):
        raise ReviewError("the object is no Pod: a field has a value of another kind")
    return Review(request["uid"], namespace, pod, bool(request.get("dryRun")))


def fits(data: Any, shape: Any) -> bool:
    """Return whether data has a shape. A field may be missing, or null."""
    if isinstance(shape, list):
        is_list = isinstance(data, list)
        return is_list and all(item is not None and fits(item, shape[0]) for item in data)
    if not isinstance(shape, dict):
        return isinstance(data, shape)
    if not isinstance(data, dict):
        return False
    if ANY in shape:
        return all(fits(item, shape[ANY]) for item in data.values())
    return all(data.get(key) is None or fits(data[key], item) for key, item in shape.items())


def allowed(uid: str, patch: Sequence[Json], warnings: Sequence[str]) -> dict[str, Any]:
    """Return the answer that admits a pod, changed by a patch if there is one."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(list(patch)).encode()).decode()
    if warnings:
        few = warnings[:MOST_WARNINGS]
        response["warnings"] = [_plain(warning, LONGEST_WARNING) for warning in few]
    return _answer(response)


def denied(uid: str, message: str, code: int = HTTPStatus.UNPROCESSABLE_ENTITY) -> dict[str, Any]:
    """Return the answer that refuses a pod."""
    status: dict[str, Any] = {"code": int(code), "message": _plain(message, LONGEST_MESSAGE)}
    if code in FOR_NOW:
        status["details"] = {"retryAfterSeconds": limits.COME_AGAIN}
    return _answer({"uid": uid, "allowed": False, "status": status})


def _answer(response: Json) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def _plain(text: str, most: int) -> str:
    """Return a text of at most so many characters, without control characters."""
    plain = printable(text)
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."
