# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Requests of a scene, one after the other, and what of their answers is kept.

A value ``$made.metadata.uid`` in a path or a body is one of the answer that was kept as ``made``; the body
``{"$of": "made", "$with": {...}}`` is that answer with a merge patch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

JSON, YAML = "application/json", "application/yaml"
MERGE, PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
ADMIN = "admin"
FORGET, WITHOUT = "FORGET", "WITHOUT"
Json = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A request by somebody, whose answer is shown by these paths, and may be kept under a name.

    ``until`` is the status that it comes to: a genuine server knows of a policy or a role a moment later.
    ``events`` are so many of a watch, which ends with them, and ``during`` is asked once it has begun. Two
    methods are no requests: with FORGET all versions but the present one are forgotten, and WITHOUT at the begin of a
    scene names a feature gate in its path that is off.
    """

    who: str
    method: str
    path: str
    body: Any = None
    kind: str = JSON
    accept: str = JSON
    show: tuple[str, ...] = ()
    keep: str = ""
    until: int = 0
    events: int = 0
    during: Any = None
    answer: Json = field(default_factory=dict)

    def told(self) -> Json:
        """Return it as it is written to a file: without what is as always."""
        plain = {one.name: one for one in fields(self)}
        every = asdict(self).items()
        return json_form({key: value for key, value in every if value != _default(plain[key])})


def _default(of: Any) -> Any:
    return {} if of.name == "answer" else of.default


def read(told: Mapping[str, Any]) -> Step:
    """Return a step as it was written."""
    return Step(**{**told, "show": tuple(told.get("show", ()))})


def json_form(value: Any) -> Any:
    """Return a value as it comes back from a file."""
    return json.loads(json.dumps(value))


class Kept(dict[str, Any]):
    """Answers by the names that steps give them."""

    def fill(self, value: Any) -> Any:
        """Return a value with those of earlier answers."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict) and "$of" in value:
            return merged(self[value["$of"]], self.fill(value["$with"]))
        if isinstance(value, dict):
            return {key: self.fill(one) for key, one in value.items()}
        return [self.fill(one) for one in value] if isinstance(value, list) else value

    def _text(self, text: str) -> Any:
        if whole := re.fullmatch(r"\$([a-z]+)((?:\.[A-Za-z]+)+)", text):
            return self._named(whole)
        return re.sub(r"\$([a-z]+)((?:\.[A-Za-z]+)+)", lambda found: str(self._named(found)), text)

    def _named(self, found: re.Match[str]) -> Any:
        value: Any = self[found[1]]
        for key in found[2].split(".")[1:]:
            value = value[key]
        return value


def merged(value: Any, patch: Any) -> Any:
    """Return a value after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), part)
    return found


# --- what is compared of an answer ---

HIDDEN = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "continue"}
HIDDEN |= {"timeAdded", "lastHeartbeatTime", "lastTransitionTime"}
META = [
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
]
META += ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation"]
META += ["deletionGracePeriodSeconds", "continue", "remainingItemCount"]
VOLATILE = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"https?://[0-9.]+:\d+"), "<address>"),
    (re.compile(r"(127\.0\.0\.1|\[::1\]):\d+"), "<address>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"(ResourceVersion in (?:the precondition|record)) \(\d+\)"), r"\1 (<version>)"),
    (re.compile(r"(resource version:) \d+ \(\d+\)"), r"\1 <version>"),
    (re.compile(r"(error decoding patch|couldn't get version/kind)[:;] .*"), r"\1"),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "<random>"),
)


def shown(status: int, answer: Any, show: tuple[str, ...], kind: str = "") -> Json:
    """Return what is compared: of a refusal all, of an object its metadata and what is named, of a list its names."""
    found: Json = {"status": status}
    if isinstance(answer, str):
        return {**found, "type": kind.partition(";")[0], "text": plain(answer)}
    if answer.get("kind") == "Status":
        return {**found, "says": said(answer)}
    return {**found, "object": object_shown(answer, show)}


def said(answer: Json) -> Json:
    """Return what is compared of a refusal: of fields that are not valid their names and the kind of reason."""
    found: Json = plain(answer)
    causes = (found.get("details") or {}).get("causes") or ()
    if found.get("reason") == "Invalid" and any("field" in one for one in causes):
        fields = sorted({f"{one['field']} {one['reason']}" for one in causes})
        about = {**found["details"], "causes": fields}
        found = {**found, "details": about, "message": found["message"].partition(": ")[0]}
    return found


def object_shown(answer: Json, show: tuple[str, ...]) -> Json:
    """Return the part of an object, or of a list of them, that is compared."""
    meta = {key: answer["metadata"][key] for key in META if key in answer.get("metadata", {})}
    found: Json = {key: answer[key] for key in ("kind", "apiVersion") if key in answer}
    found["metadata"] = meta
    if "items" in answer:
        found["items"] = [object_shown(one, show) for one in answer["items"]]
    for path in show:
        value: Any = answer
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        found[path] = value
    found_plain: Json = plain(found)
    return found_plain


def plain(value: Any, key: str = "") -> Any:
    """Return a value without what differs each time."""
    if key in HIDDEN and value is not None and value != "":
        return f"<{key}>"
    if isinstance(value, dict):
        left_out = {name for name in value if name in HIDDEN and value[name] is None}
        return {name: plain(one, name) for name, one in value.items() if name not in left_out}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, str):
        for pattern, word in VOLATILE:
            value = pattern.sub(word, value)
    return value


Asking = Callable[[Step], tuple[int, Any, str]]  # status, what came, and its type


def run(steps: list[Step], ask: Asking) -> list[Json]:
    """Return what is compared of the answer to each step."""
    kept, found = Kept(), []
    for one in steps:
        filled = replace(one, path=kept.fill(one.path), body=kept.fill(one.body))
        status, answer, kind = ask(filled)
        if one.keep:
            kept[one.keep] = answer
        if one.method in (FORGET, WITHOUT):
            found.append({})
        elif one.events:
            events = [{"type": each["type"], **_event(each["object"], one.show)} for each in answer]
            found.append({"status": status, "events": events})
        else:
            found.append(shown(status, answer, one.show, kind))
    return found


def _event(thing: Json, show: tuple[str, ...]) -> Json:
    return {"says": said(thing)} if thing["kind"] == "Status" else object_shown(thing, show)
