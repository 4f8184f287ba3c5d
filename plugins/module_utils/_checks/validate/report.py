# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What was found on all nodes, as JUnit's XML and as data for JSON."""

from __future__ import annotations

import math
import re
import typing as t
from xml.etree import ElementTree

from ..._base.text.json_data import MISREAD, NOT_UNDERSTOOD
from .check import FAILED, ORDER, SKIPPED, WARNING

VERSION = 1
SUITE = "gpu.node.validate"
ABSENT = "the node was not validated: it has no GPU, was skipped, failed before or did not answer"
FIELDS = ("name", "state", "cause", "next_step")
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Result = t.Mapping[str, t.Any]


def data(results: t.Mapping[str, t.Optional[Result]]) -> t.Dict[str, t.Any]:
    """Return what the module said of each node, None for those where it did not run, by their names.

    ``pods`` in it is what gpu.node.validate_pods has answered. A node whose answer has another shape is not ready.
    """
    return {"version": VERSION, "nodes": {name: _node(result) for name, result in results.items()}}


def _node(result: t.Optional[Result]) -> t.Dict[str, t.Any]:
    if result is None:
        return {"ready": None, "summary": ABSENT, "seconds": 0.0, "checks": []}
    try:
        return _read(result)
    except MISREAD:
        return {"ready": False, "summary": NOT_UNDERSTOOD, "seconds": 0.0, "checks": []}


def _read(result: Result) -> t.Dict[str, t.Any]:
    data = [*result["checks"], *(result.get("pods") or {}).get("checks", ())]
    checks = [{key: str(row.get(key, "")) for key in FIELDS} for row in data]
    seconds = float(result.get("seconds", 0.0))
    if not math.isfinite(seconds) or any(row["state"] not in ORDER for row in checks):
        raise ValueError(NOT_UNDERSTOOD)
    ready = not any(check["state"] == FAILED for check in checks)
    summary = str(result.get("summary", ""))
    return {"ready": ready, "summary": summary, "seconds": seconds, "checks": checks}


def junit(results: t.Mapping[str, t.Optional[Result]]) -> str:
    """Return an XML document with a suite for each node and a case for each check."""
    root = ElementTree.Element("testsuites", {"name": SUITE})
    for name, node in data(results)["nodes"].items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(name)})
        state = FAILED if node["ready"] is False else SKIPPED
        absent = {"name": "validation", "state": state, "cause": node["summary"], "next_step": ""}
        for check in node["checks"] or [absent]:
            _case(suite, check)
        suite.set("time", f"{node['seconds']:.2f}")
        _count(suite)
    _count(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _case(suite: ElementTree.Element, check: t.Mapping[str, str]) -> None:
    named = {"classname": SUITE, "name": _clean(check["name"])}
    case = ElementTree.SubElement(suite, "testcase", named)
    step = f"\nNext step: {check['next_step']}" if check["next_step"] else ""
    text = _clean(check["cause"] + step)
    if check["state"] == FAILED:
        ElementTree.SubElement(case, "failure", {"message": _clean(check["cause"])}).text = text
    elif check["state"] == SKIPPED:
        ElementTree.SubElement(case, "skipped", {"message": _clean(check["cause"])})
    elif check["state"] == WARNING:
        ElementTree.SubElement(case, "system-out").text = f"warning: {text}"


def _count(element: ElementTree.Element) -> None:
    for key, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
        element.set(key, str(sum(1 for _element in element.iter(tag))))
    element.set("errors", "0")


def _clean(text: str) -> str:
    """Return a text without the characters that no XML document may have."""
    return NOT_XML.sub("\ufffd", text)
