# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node's state besides its GPUs, from what each who knows of it says."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.report import status
from ansible_collections.gpu.node.plugins.module_utils._driver.releases.table import parse
from hypothesis import given
from hypothesis import strategies as st

DAY = datetime.date(2026, 11, 22)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda of: st.lists(of) | st.dictionaries(st.text(), of),
)
KEYS = ("state", "problem", "resources", "health", "labels", "mig_boot", "unreadable")


def test_a_driver_has_its_support_and_its_bulletins() -> None:
    found = status.driver({"version": "580.95.05", "kind": "open"}, parse(True), DAY)
    assert found["support"]["end_of_support"] == "2028-06-30"
    assert (found["security"]["below"], found["security"]["floor"]) == (True, "580.178.04")
    assert (found["version"], found["type"]) == ("580.95.05", "open")
    without = status.driver({"version": "580.95.05", "kind": "open"}, None, DAY)
    assert without["support"] == without["security"] == without["releases"] == {}
    assert status.driver(None, parse(True), DAY) == {}


@given(st.dictionaries(st.sampled_from(KEYS), JSON).map(json.dumps) | st.text())
def test_whatever_the_daemon_answers_has_one_shape(text: str) -> None:
    found = status.daemon(text, "silent")
    assert list(found) == ["daemon", "faults", "labels", "mig_boot", "unreadable"]
    assert all(isinstance(one, str) for one in found["labels"]["labels"].values())
    json.dumps(found)


def test_xids_are_told_by_their_numbers() -> None:
    told = [{"gpu": "GPU-1", "index": "1", "reason": "XID 79 (GPU has fallen off the bus)"}]
    told.append({"gpu": "GPU-2", "index": "2", "reason": "NVML does not answer in time"})
    found = status.daemon(json.dumps({"state": "serving", "health": told}))
    assert [one["xid"] for one in found["faults"]] == [79, None]
    assert found["faults"][0]["way_back"] is None


def test_a_field_goes_before_the_number_in_the_reason() -> None:
    faults = [
        {"gpu": "GPU-1", "kind": "fault", "reason": "it has fallen off the bus", "xid": 79},
        {"gpu": "GPU-2", "kind": "quarantined", "reason": "XID 79 twice in a week", "xid": None},
        {
            "gpu": "GPU-3",
            "kind": "fault",
            "reason": "XID 79 (it has fallen off the bus)",
            "xid": "79",
        },
    ]
    seen = status.daemon(json.dumps({"state": "serving", "health": faults}))
    assert [fault["xid"] for fault in seen["faults"]] == [79, None, None]


def test_resources_are_counted_by_health() -> None:
    devices = {"a": "Healthy", "b": "Unhealthy"}
    told = {"resources": {"nvidia.com/gpu": {"devices": devices, "registered": True}}}
    found = status.daemon(json.dumps(told))["daemon"]["resources"]
    assert found == {"nvidia.com/gpu": {"devices": 2, "healthy": 1, "registered": True}}


def _gpu(*, current: bool, pending: bool) -> dict[str, Any]:
    return {"index": 3, "mig_current": current, "mig_pending": pending}


@pytest.mark.parametrize(
    ("packages", "gpu", "expected"),
    [
        (None, _gpu(current=True, pending=True), []),
        (
            ("libc6", "linux-base"),
            _gpu(current=False, pending=False),
            ["the distribution asks for it (libc6, linux-base)"],
        ),
        ((), _gpu(current=False, pending=False), ["the distribution asks for it"]),
        (
            None,
            _gpu(current=True, pending=False),
            ["GPU 3: MIG mode off waits for a reset of the GPU or a reboot"],
        ),
    ],
)
def test_why_a_reboot_is_pending(
    packages: tuple[str, ...] | None, gpu: dict[str, Any], expected: list[str]
) -> None:
    assert status.reboots(packages, [gpu]) == expected
