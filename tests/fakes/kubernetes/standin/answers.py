# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What an API server says where it does not do what it is asked, in its own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.kubernetes.standin.resources import Asked, Resource

Json = dict[str, Any]
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
}
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
RECREATED = (
    "the UID in the precondition ({}) does not match the UID in record ({})."
    " The object might have been deleted and then recreated"
)
CHANGED = (
    "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({})."
    " The object might have been modified"
)
METHOD = "the server does not allow this method on the requested resource"
NO_PAGE = "the server could not find the requested resource"


class Refused(Exception):
    """A request that is refused; a reason of None is left out."""

    def __init__(
        self,
        code: int,
        message: str,
        details: Mapping[str, Any] | None = None,
        reason: str | None = "",
        meta: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.meta = dict(meta or {})
        self.code, self.message, self.details = code, message, details
        self.reason = REASONS.get(code, "InternalError") if reason == "" else reason

    def body(self) -> Json:
        """Return the answer."""
        found: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "metadata": self.meta,
        }
        found |= {"message": self.message, "code": self.code}
        if self.reason is not None:
            found["reason"] = self.reason
        return found if self.details is None else {**found, "details": dict(self.details)}


def details(resource: Resource, name: str = "", kind: str = "", **more: Any) -> Json:
    """Return what a refusal is about."""
    found = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {**{key: text for key, text in found.items() if text}, **more}


def forbidden(asked: Asked, user: str, why: str = "") -> Refused:
    """Say that somebody may not ask for this."""
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    group = asked.resource.group
    what = f'cannot {asked.verb} resource "{asked.what}" in API group "{group}" {where}'
    named = f' "{asked.name}"' if asked.name else ""
    said = f'{asked.resource.named}{named} is forbidden: User "{user}" {what}'
    return Refused(403, f"{said}: {why}" if why else said, details(asked.resource, asked.name))


def not_admitted(resource: Resource, name: str, why: str, causes: Sequence[Json] = ()) -> Refused:
    """Say that an object is not let in."""
    more = {"causes": list(causes)} if causes else {}
    named = f' "{name}"' if name else ""
    said = f"{resource.named}{named} is forbidden: {why}"
    return Refused(403, said, details(resource, name, **more))


def missing(resource: Resource, name: str) -> Refused:
    """Say that there is no such object."""
    return Refused(404, f'{resource.named} "{name}" not found', details(resource, name))


def exists(resource: Resource, name: str) -> Refused:
    """Say that there is one already."""
    said = f'{resource.named} "{name}" already exists'
    return Refused(409, said, details(resource, name), "AlreadyExists")


def conflict(resource: Resource, name: str, why: str = MODIFIED, kind: str = "") -> Refused:
    """Say that the object is another one by now; ``kind`` where it is named by its kind."""
    group = f".{resource.group}" if kind and resource.group else ""
    named = f"{kind}{group}" if kind else resource.named
    said = f'Operation cannot be fulfilled on {named} "{name}": {why}'
    return Refused(409, said, details(resource, name, kind))


def invalid(resource: Resource, name: str, *fields: tuple[str, str, str]) -> Refused:
    """Say which fields are not valid: each with a reason and a message."""
    said = [f"{field}: {message}" for field, _reason, message in fields]
    group = f".{resource.group}" if resource.group else ""
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    causes = [
        {"reason": f"FieldValue{reason}", "message": message, "field": field}
        for field, reason, message in fields
    ]
    about = details(resource, name, resource.kind, causes=causes)
    return Refused(422, f'{resource.kind}{group} "{name}" is invalid: {text}', about)


def success(resource: Resource, name: str, uid: str) -> Json:
    """Return the answer to the removal of an object that is not shown."""
    found: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**found, "details": details(resource, name, uid=uid)}
