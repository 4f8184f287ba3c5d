# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""JUnit's XML and JSON of what was found, whatever a node says."""

from __future__ import annotations

import json
import typing as t
from xml.etree import ElementTree

from ansible_collections.gpu.node.plugins.module_utils._checks.validate import report
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.check import (
    FAILED,
    ORDER,
    SKIPPED,
    WARNING,
    Check,
)
from hypothesis import given
from hypothesis import strategies as st

FOUND = [
    Check("driver"),
    Check("holds", FAILED, "an upgrade would take <nvidia-smi> & more", "hold it"),
    Check("MIG", SKIPPED, "no MIG layout is declared"),
    Check("labels", WARNING, "not labelled yet", "join"),
]


def result(checks: t.Iterable[Check], **more: t.Any) -> dict[str, t.Any]:
    return {
        "checks": [one.describe() for one in checks],
        "summary": "ready",
        "seconds": 1.5,
        **more,
    }


def test_a_suite_for_each_node_and_a_case_for_each_check() -> None:
    text = report.junit({"node-1": result(FOUND), "node-2": None})
    root = ElementTree.fromstring(text)
    one, two = root
    assert [case.get("name") for case in one] == ["driver", "holds", "MIG", "labels"]
    failure = one.find("testcase[@name='holds']/failure")
    assert failure is not None
    assert failure.get("message") == "an upgrade would take <nvidia-smi> & more"
    assert failure.text == "an upgrade would take <nvidia-smi> & more\nNext step: hold it"
    assert (
        one.findtext("testcase[@name='labels']/system-out")
        == "warning: not labelled yet\nNext step: join"
    )
    assert {key: one.get(key) for key in ("name", "tests", "failures", "skipped", "time")} == {
        "name": "node-1",
        "tests": "4",
        "failures": "1",
        "skipped": "1",
        "time": "1.50",
    }
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("5", "1", "2")
    # What did not answer is not green.
    absent = two.find("testcase/skipped")
    assert absent is not None
    assert absent.get("message") == report.ABSENT


def test_data_has_a_version_and_whether_each_node_is_ready() -> None:
    found = report.data({"a": result(FOUND), "b": result(FOUND[:1]), "c": None})
    assert found["version"] == 1
    assert {name: one["ready"] for name, one in found["nodes"].items()} == {
        "a": False,
        "b": True,
        "c": None,
    }
    assert found["nodes"]["a"]["checks"][1] == {
        "name": "holds",
        "state": "failed",
        "cause": "an upgrade would take <nvidia-smi> & more",
        "next_step": "hold it",
    }


TEXT = st.text(st.characters(codec=None), max_size=20)  # with what no XML document may have


@given(
    st.dictionaries(
        TEXT,
        st.none()
        | st.lists(st.builds(Check, TEXT, st.sampled_from(ORDER), TEXT, TEXT), max_size=4).map(
            result
        ),
        max_size=3,
    )
)
def test_whatever_a_node_says_the_files_can_be_read(results: dict[str, t.Any]) -> None:
    root = ElementTree.fromstring(report.junit(results).encode("utf-8"))
    assert len(root) == len(results)
    failed = sum(
        one["state"] == FAILED for found in results.values() if found for one in found["checks"]
    )
    assert len(list(root.iter("failure"))) == int(root.get("failures") or 0) == failed
    assert json.loads(json.dumps(report.data(results)))["nodes"].keys() == results.keys()
