# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What follows from each XID, against the immediate actions of NVIDIA's Xid catalog."""

from __future__ import annotations

from gpu_plugin._shared._repair.signs import Xid
from gpu_plugin._shared._repair.xids.table import KNOWN
from gpu_plugin.config.configuration import overrides
from gpu_plugin.model.xids import Effect, Overrides, effect

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


def numbers(text: str) -> set[int]:
    found: set[int] = set()
    for word in text.split():
        first, _dash, last = word.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def usual(number: int, branch: int = 0) -> Effect:
    return effect(Xid(number), Overrides(), branch, speaks=branch > 0)[0]


def test_what_wants_nothing_done_to_the_gpu_leaves_it() -> None:
    for bucket in ("RESTART_APP", "IGNORE", "XID_154", "WORKFLOW_XID_45"):
        for number in numbers(CATALOG[bucket]):
            assert usual(number) is Effect.IGNORE, number


def test_what_wants_more_than_another_try_waits_for_it_to_be_done() -> None:
    for bucket in (
        *("RESET_GPU", "RESTART_BM", "CHECK_MECHANICALS", "RESTART_VM", "WORKFLOW_XID_48"),
        *("CHECK_UVM", "WORKFLOW_NVLINK_ERR", "UPDATE_SWFW", "WORKFLOW_NVLINK5_ERR"),
    ):
        for number in numbers(CATALOG[bucket]):
            assert usual(number) is Effect.FATAL, number


def test_an_unknown_xid_waits_for_a_person_unless_the_user_or_the_driver_says_otherwise() -> None:
    for number in (1, 47, 173, 199, 5000, 9999):
        assert usual(number) is Effect.FATAL, number
        assert usual(number, 580) is Effect.IGNORE, number
        assert effect(Xid(number), overrides(str(number), ""))[0] is Effect.IGNORE, number


def test_where_the_driver_knows_more_it_is_asked_and_believed() -> None:
    nvlink5 = numbers(CATALOG["WORKFLOW_NVLINK5_ERR"])
    for number in (*nvlink5, 48, 64, 74, 95, 109, 154):
        assert KNOWN.asks_driver(number), number
        assert usual(number, 580) is Effect.IGNORE, number
    assert (usual(109, 565), usual(109, 570)) == (Effect.FATAL, Effect.IGNORE)
    for number in (13, 31, 43, 45, 79, 119):
        assert not KNOWN.asks_driver(number), number
    for number in (46, 79, 119, 140):
        assert usual(number, 580) is Effect.FATAL, number


def test_what_the_user_names_counts_whatever_else_is_said_of_it() -> None:
    for number, wanted in ((31, Effect.DEGRADE), (48, Effect.FATAL), (79, Effect.FATAL)):
        for enabled in (str(number), "all"):
            said = effect(Xid(number), overrides("all", enabled), 580, speaks=True)
            assert said[0] is wanted, number


def test_what_makes_a_gpu_unfit_is_described() -> None:
    for number in numbers(CATALOG["RESET_GPU"]) | {48, 54, 74, 79, 149}:
        assert effect(Xid(number), Overrides())[1].text.startswith(f"XID {number} ("), number
