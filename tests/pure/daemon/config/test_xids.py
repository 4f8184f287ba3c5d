# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What follows from each XID, against the immediate actions of NVIDIA's Xid catalog."""

from __future__ import annotations

from gpu_plugin.config.xids import overrides
from gpu_plugin.model.xids import (
    APPLICATION,
    ASK_DRIVER,
    COPED,
    INFORMATION,
    WHOLE,
    Action,
    Overrides,
    action,
    describe,
)

# "Resolution Bucket (Immediate Action)" of docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
CATALOG = {
    "RESTART_APP": "8 11 13 25 31 32 39-41 60 68-72 75-77 80 82-86 88 89 94 96-105 126-135 139",
    "IGNORE": "14 37 38 43 44 63 66 67 92 93 106-108 121 137 141 152 153 157 160 161",
    "RESET_GPU": "46 62 64 95 109 110 119 120 136 140 143 155 156 158",
    "XID_154": "154",
    "WORKFLOW_NVLINK5_ERR": "144-150",
    "WORKFLOW_XID_45": "45",
    "WORKFLOW_XID_48": "48",
    "WORKFLOW_NVLINK_ERR": "74",
    "RESTART_BM": "79",
    "CHECK_MECHANICALS": "54",
    "RESTART_VM": "151",
    "UPDATE_SWFW": "78",
    "CHECK_UVM": "159",
}
# Where this plugin is of another opinion; model/xids.py says why.
STRICTER = {32, 63, 92, 94, 121}
MILDER = {109}


def numbers(text: str) -> set[int]:
    found: set[int] = set()
    for word in text.split():
        first, _dash, last = word.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def usual(number: int) -> Action:
    return action(number, Overrides())


def test_what_wants_nothing_done_to_the_gpu_leaves_it() -> None:
    for bucket in ("RESTART_APP", "IGNORE", "XID_154", "WORKFLOW_XID_45"):
        for number in numbers(CATALOG[bucket]):
            wanted = Action.DEGRADE if number in STRICTER else Action.IGNORE
            assert usual(number) is wanted, number


def test_what_wants_more_than_another_try_waits_for_a_reset() -> None:
    for bucket in (
        *("RESET_GPU", "RESTART_BM", "CHECK_MECHANICALS", "RESTART_VM", "WORKFLOW_XID_48"),
        *("CHECK_UVM", "WORKFLOW_NVLINK_ERR", "UPDATE_SWFW"),
    ):
        for number in numbers(CATALOG[bucket]) - MILDER:
            assert usual(number) is Action.FATAL, number


def test_an_unknown_xid_waits_for_a_reset_unless_the_user_says_otherwise() -> None:
    for number in (1, 47, 78, 173, 199, 5000, 9999):
        assert usual(number) is Action.FATAL, number
        assert action(number, overrides(str(number), "")) is Action.IGNORE, number


def test_what_nvidias_plugin_ignores_is_ignored() -> None:
    assert {usual(number) for number in (13, 31, 43, 45, 68, 109)} == {Action.IGNORE}


def test_where_the_driver_knows_more_it_is_asked() -> None:
    assert numbers(CATALOG["WORKFLOW_NVLINK5_ERR"]) - {149} < ASK_DRIVER
    assert usual(149) is Action.FATAL  # the one of them of which all rows are fatal
    assert {109, 154} < ASK_DRIVER
    assert {usual(number) for number in ASK_DRIVER} == {Action.IGNORE}


def test_an_xid_is_in_one_class() -> None:
    classes = [APPLICATION, INFORMATION, COPED.keys(), WHOLE.keys()]
    for one in classes:
        for other in classes:
            assert one is other or not set(one) & set(other)


def test_what_makes_a_gpu_unfit_is_described() -> None:
    told = numbers(CATALOG["RESET_GPU"]) - MILDER | STRICTER | {48, 54, 74, 79, 149}
    for number in told:
        assert describe(number).startswith(f"XID {number} ("), number
