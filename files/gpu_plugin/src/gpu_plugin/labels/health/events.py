# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which Event is to be written next, after those that were written before. Pure.

Changes are reported, not states: what was reported is remembered, so that a restart reports nothing twice. An
Event that happens again becomes the same one with a higher count, as client-go's recorder does it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..._shared._base.text.json_data import is_whole
from .faults import Faults

SICK, WELL = "GPUUnhealthy", "GPUHealthy"
MIG_MADE, MIG_FAILED = "MIGConfigApplied", "MIGConfigFailed"
WARNINGS: Final = (SICK, MIG_FAILED)
COMPONENT: Final = "gpu-node-labels"
NAMESPACE: Final = "default"  # where Events of objects without a namespace are
PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/events"
PAUSE: Final = (
    30.0  # seconds between two Events of one device: what passes in between is not reported
)
KEPT: Final = 3600.0  # seconds for which API servers keep an Event by default
LONGEST: Final = 1000  # of a message, of which Kubernetes takes 1024 bytes

Json = dict[str, Any]
Records = Mapping[str, Json]  # by place: text, device, at, and the Events by reason


@dataclass(frozen=True)
class Notice:
    """An Event to write; ``again`` is its name if it only counts on from an earlier one."""

    place: str
    reason: str
    again: str
    body: Json
    record: Json  # what is remembered of the place then


def next_notice(faults: Faults, records: Records, node: str, seconds: float) -> Notice | None:
    """Return the next Event, None if there is nothing to report or it is too early."""
    for place in sorted({*faults, *records}):
        before = records.get(place, {})
        fault = faults.get(place)
        text = fault.text if fault else ""
        if text == before.get("text", "") or age(before, seconds) < PAUSE:
            continue
        device = fault.device if fault else before["device"]
        reason = SICK if fault else WELL
        message = f"{device}: {text}" if fault else f"{device} is healthy again"
        events = dict(before.get("events", {}))
        last, again, count = events.get(reason), "", 1
        if last and age(last, seconds) < KEPT:
            again, count = last["name"], last["count"] + 1
            stamp = moment(seconds)
            body = {"count": count, "lastTimestamp": stamp, "message": _bounded(message)}
        else:
            body = single(node, reason, message, seconds)
        name = again or body["metadata"]["name"]
        events[reason] = {"name": name, "count": count, "at": seconds}
        record = {"text": text, "device": device, "at": seconds, "events": events}
        return Notice(place, reason, again, body, record)
    return None


def remembered(records: Records, seconds: float) -> Records:
    """Return the records that still matter: faults, and Events that may be counted on."""
    return {
        place: record
        for place, record in records.items()
        if record["text"] or age(record, seconds) < KEPT
    }


def age(event: Mapping[str, Any], seconds: float) -> float:
    """Return how long ago something was written. What is from the future, by a wrong clock, is infinitely old."""
    passed = seconds - float(event.get("at", 0))
    return passed if passed >= 0 else float("inf")


def usable(raw: object) -> Records:
    """Return the records of an earlier process, empty if the data has another form."""
    return raw if isinstance(raw, dict) and all(map(_is_usable, raw.values())) else {}


def _is_usable(raw: object) -> bool:
    if not isinstance(raw, dict) or not isinstance(raw.get("events"), dict):
        return False
    texts = all(isinstance(raw.get(key), str) for key in ("text", "device"))
    events = [event for event in raw["events"].values() if isinstance(event, dict)]
    whole = all(
        isinstance(event.get("name"), str)
        and is_whole(event.get("count"))
        and _number(event.get("at"))
        for event in events
    )
    return texts and whole and _number(raw.get("at")) and len(events) == len(raw["events"])


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def single(node: str, reason: str, message: str, seconds: float) -> Json:
    """Return an Event of its own."""
    stamp = moment(seconds)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{node[:200]}.{int(seconds * 1e9):x}", "namespace": NAMESPACE},
        # The kubelet's own Events have the name of the node as its uid too.
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "type": "Warning" if reason in WARNINGS else "Normal",
        "reason": reason,
        "message": _bounded(message),
        "count": 1,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
    }


def _bounded(message: str) -> str:
    return message.encode()[:LONGEST].decode(errors="ignore")


def moment(seconds: float) -> str:
    """Return a time as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
