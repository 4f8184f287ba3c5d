# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A request as it comes, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from tests.fakes.kubernetes.standin.answers import Refused
from tests.fakes.kubernetes.standin.authorizers import User
from tests.fakes.kubernetes.standin.resources import Resource

Json = dict[str, Any]
JSON, YAML = "application/json", "application/yaml"
PATCHES = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "strategic",
}
ACCEPTED = f"{JSON}, {YAML}, application/vnd.kubernetes.protobuf"


@dataclass(frozen=True)
class Request:
    """``kind`` is that of its body, ``accept`` that of the answer."""

    method: str
    path: str
    query: Mapping[str, str]
    text: bytes
    kind: str
    accept: str
    user: User

    @property
    def watching(self) -> bool:
        return self.query.get("watch", "").lower() in ("true", "1")

    @property
    def dry(self) -> bool:
        return self.query.get("dryRun") == "All"

    def options(self) -> Json:
        """Return the options of a removal."""
        return json.loads(self.text) if self.text else {}

    def object(self, resource: Resource) -> Json:
        """Return the object that is sent. Refused: it is none of this kind."""
        if self.kind not in (JSON, YAML, ""):
            said = "the body of the request was in an unknown format"
            raise Refused(415, f"{said} - accepted media types include: {ACCEPTED}")
        try:
            found: Json = yaml.safe_load(self.text) if self.kind == YAML else json.loads(self.text)
        except (ValueError, yaml.YAMLError) as error:
            must = f"the object provided is unrecognized (must be of type {resource.kind})"
            raise Refused(400, f"{must}: couldn't get version/kind: {error}") from error
        return {"kind": resource.kind, "apiVersion": resource.api, **found}

    def patch(self) -> tuple[str, Any]:
        """Return the kind of a patch and the patch. Refused: it is none."""
        if self.kind not in PATCHES:
            raise Refused(415, "415: Unsupported Media Type", {})
        try:
            return PATCHES[self.kind], json.loads(self.text)
        except ValueError as error:
            raise Refused(400, f"error decoding patch: {error}") from error


def read(method: str, target: str, headers: Mapping[str, Any], text: bytes, user: User) -> Request:
    """Return a request."""
    where = urlsplit(target)
    return Request(
        method,
        where.path,
        dict(parse_qsl(where.query)),
        text,
        str(headers.get("Content-Type") or "").partition(";")[0],
        str(headers.get("Accept") or ""),
        user,
    )
