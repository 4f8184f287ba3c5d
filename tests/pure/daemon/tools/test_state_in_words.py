# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin's state in words."""

from __future__ import annotations

from typing import Any

from gpu_plugin.tools.status import describe

STATE: dict[str, Any] = {
    "version": "1",
    "pid": 7,
    "state": "serving",
    "driver_version": "580.178.04",
    "resources": {},
}


def test_what_is_to_be_done_about_a_gpu_is_a_line() -> None:
    told = {
        "index": "1",
        "verdict": "reset",
        "reason": "XID 119",
        "next_step": "a reset of the GPU",
    }
    assert describe({**STATE, "verdicts": {"GPU-1": told}}).splitlines() == [
        "gpu-plugin 1 (process 7): serving",
        "driver: 580.178.04",
        "GPU 1 (GPU-1): XID 119. Verdict: reset, a reset of the GPU",
    ]


def test_a_state_of_an_earlier_release_has_no_verdicts() -> None:
    assert describe(STATE).splitlines()[2:] == []


def test_a_setting_that_has_drifted_is_a_line_and_one_that_has_not_is_none() -> None:
    one = {"uuid": "GPU-1", "index": "1", "setting": "power_limit", "declared": "550 W"}
    settings = [{**one, "now": "500 W", "drifted": True}, {**one, "now": "550 W", "drifted": False}]
    assert describe({**STATE, "settings": settings}).splitlines()[2:] == [
        "GPU 1 (GPU-1): power_limit is 500 W, and declared is 550 W"
    ]
