# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Plans for settings: what is set, what waits, what is refused, and that a second plan is empty."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import NAMES, Gpu, SettingsTold
from ansible_collections.gpu.node.plugins.module_utils._settings.plan import FORGET, Node, plan
from ansible_collections.gpu.node.plugins.module_utils._settings.rules import parse
from ansible_collections.gpu.node.plugins.module_utils._settings.state import (
    GpuState,
    Kept,
    Lock,
    dump,
    now,
)
from ansible_collections.gpu.node.plugins.module_utils._settings.state import parse as read
from hypothesis import given
from hypothesis import strategies as st

UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
GPU = Gpu(
    0, UUID, "NVIDIA H100 80GB HBM3", "0000:3b:00.0", 0, 1 << 36, (9, 0), True, False, False, 0
)
TOLD = SettingsTold(
    now={
        "persistence": True,
        "power_limit": 700_000,
        "ecc": True,
        "compute_mode": "default",
        "accounting": False,
    },
    power=(200_000, 700_000),
    power_default=700_000,
    clocks={"gpu_clocks": (210, 1980), "memory_clocks": (1593, 2619)},
    running={"gpu_clocks": 1980, "memory_clocks": 2619},
    ecc_next=True,
    energy=5000,
)
LOAD = "boot/1"
GOOD = Node()


def state(told: SettingsTold = TOLD, kept: Kept | None = None, **more: Any) -> GpuState:
    kept = kept or Kept()
    return GpuState(GPU, told, now(told, kept, LOAD), kept, **more)


def planned(one: GpuState, *rules: dict[str, Any], node: Node = GOOD) -> Any:
    return plan([one], parse(rules), node)[0]


def carried_out(one: GpuState, steps: Any) -> GpuState:
    """Return the GPU as it is after steps, as the capability keeps of it what it was before."""
    told, kept = one.told, one.kept
    for step in steps:
        if step.action == FORGET:
            left = {
                name: was for name, was in kept.before.items() if name not in step.params["names"]
            }
            locks = {
                name: was for name, was in kept.locks.items() if name not in step.params["names"]
            }
            kept = Kept(left, locks)
            continue
        name, value = step.params["name"], step.params["value"]
        kept = kept._replace(before={name: one.now[name], **kept.before})
        if name in told.clocks:
            locks = {key: lock for key, lock in kept.locks.items() if key != name}
            runs = told.clocks[name][1]
            if value is not None:
                locks[name], runs = Lock(value, LOAD, told.energy), value[1]
            kept = kept._replace(locks=locks)
            told = told._replace(running={**told.running, name: runs})
        elif name == "ecc":
            told = told._replace(ecc_next=value)
        else:
            told = told._replace(now={**told.now, name: value})
    return state(told, kept)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "power_limit": st.integers(200, 700) | st.sampled_from(["50%", "default"]),
    "gpu_clocks": st.tuples(st.integers(210, 900), st.integers(900, 1980)).map(list)
    | st.just("default"),
    "memory_clocks": st.just(1593) | st.just("default"),
    "compute_mode": st.sampled_from(["default", "exclusive_process", "prohibited"]),
    **{name: st.booleans() for name in ("persistence", "ecc", "accounting")},
}
RULES = st.lists(st.fixed_dictionaries({}, optional=VALUES).filter(bool), min_size=1, max_size=3)


@given(RULES, RULES)
def test_a_second_run_changes_nothing_and_absent_gives_back_what_was_there(
    rules: list[dict[str, Any]], later: list[dict[str, Any]]
) -> None:
    first = state()
    after = first
    for each in (rules, later):
        after = carried_out(after, planned(after, *each).steps)
        assert planned(after, *each).steps == ()
        assert read(dump({UUID: after.kept})) == {UUID: after.kept}
    back = carried_out(after, planned(after).steps)
    assert back.kept == Kept()
    assert back.now == first.now
    assert back.told.ecc_next is True


def test_what_no_rule_names_any_more_becomes_what_it_was() -> None:
    after = carried_out(state(), planned(state(), {"power_limit": 550, "accounting": True}).steps)
    words = [step.summary for step in planned(after, {"accounting": True}).steps]
    assert words == [
        f"GPU 0 ({UUID}): power_limit from 550 W to 700 W",
        f"GPU 0 ({UUID}): forget what power_limit was before",
    ]


@pytest.mark.parametrize(
    ("load", "energy", "runs", "holds"),
    [
        (LOAD, 6000, 1100, True),
        (LOAD, 6000, 1500, False),  # it runs faster than it was locked to
        ("boot/2", 6000, 1100, False),  # another load of the driver
        (LOAD, 10, 1100, False),  # it was reset, and counts its energy anew
        (LOAD, None, 1100, True),
    ],
)
def test_a_lock_counts_until_something_shows_that_it_is_gone(
    load: str, energy: int | None, runs: int, holds: bool
) -> None:
    kept = Kept(locks={"gpu_clocks": Lock((300, 1200), LOAD, 5000)})
    told = TOLD._replace(energy=energy, running={"gpu_clocks": runs})
    assert (now(told, kept, load)["gpu_clocks"] == (300, 1200)) is holds


def test_an_ecc_mode_waits_for_a_reset_and_is_told() -> None:
    one = planned(state(), {"ecc": False})
    assert [step.params["value"] for step in one.steps] == [False]
    after = carried_out(state(), one.steps)
    assert planned(after, {"ecc": False}).reboot_required == (
        f"GPU 0 ({UUID}): ECC is off after a reset of the GPU or a reboot",
    )
    assert planned(after, {"persistence": True}).reboot_required == ()


def test_a_setting_that_a_gpu_does_not_have_is_left_out_and_said() -> None:
    none = TOLD._replace(now={"persistence": True}, clocks={}, ecc_next=None)
    one = planned(state(none), {"power_limit": 550, "gpu_clocks": 1200, "ecc": True})
    assert one.steps == ()
    assert [text.split(" has no ")[1] for text in one.warnings] == [
        f"{name}, so it is left out: {GPU.name}" for name in ("power_limit", "gpu_clocks", "ecc")
    ]


def test_a_compute_mode_that_keeps_others_out_is_refused_while_the_gpu_is_used() -> None:
    used = state(users=("pod a/b (container c) with nvidia.com/gpu GPU-x",))
    with pytest.raises(NodeError, match="no other process could use the GPU") as refused:
        planned(used, {"compute_mode": "exclusive_process"})
    assert refused.value.details["blocked_by"] == list(used.users)
    assert planned(used, {"compute_mode": "default", "power_limit": 500}).steps


def test_what_another_program_sets_is_refused_by_its_name() -> None:
    with pytest.raises(NodeError, match="MPS shares the GPU"):
        planned(state(mps=True), {"compute_mode": "exclusive_process"})
    with pytest.raises(NodeError, match="GpuFreqDef"):
        planned(state(), {"gpu_clocks": 1200}, node=Node(slurm_clocks=True))
    assert planned(state(), {"power_limit": 500}, node=Node(slurm_clocks=True)).steps


def test_what_is_lost_with_the_last_process_is_warned_of() -> None:
    off = state(TOLD._replace(now={**TOLD.now, "persistence": False}))
    (warning,) = planned(off, {"power_limit": 500, "gpu_clocks": 1200}).warnings
    assert "the driver forgets power_limit, gpu_clocks when the last process" in warning
    assert planned(off, {"power_limit": 500, "persistence": True}).warnings == ()


def test_persistence_without_its_service_is_called_the_legacy_mode() -> None:
    (warning,) = planned(state(), {"persistence": True}, node=Node(False)).warnings
    assert "legacy mode" in warning


def test_a_rule_that_matches_no_gpu_is_warned_of() -> None:
    (warning,) = planned(state(), {"match": {"index": 7}, "ecc": True}).warnings
    assert warning == "settings: rules[0] matches no GPU of this node"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"version": 2, "gpus": {}}',
        '{"version": 1, "gpus": {"x": {}}}',
        '{"version": 1, "gpus": {"x": {"before": {"fan": 1}, "locks": {}}}}',
        '{"version": 1, "gpus": {"x": {"before": {"power_limit": true}, "locks": {}}}}',
        '{"version": 1, "gpus": {"x": {"before": {"gpu_clocks": [1]}, "locks": {}}}}',
        '{"version": 1, "gpus": {"x": {"before": {}, "locks": {"gpu_clocks": {"clocks": [1, 2]}}}}}',
    ],
)
def test_a_damaged_record_is_refused_with_a_next_step(text: str) -> None:
    with pytest.raises(NodeError, match=r"settings\.json is damaged.*Next step: move it away"):
        read(text)


def test_the_names_of_settings_are_set_in_an_order_in_which_they_last() -> None:
    assert NAMES[0] == "persistence"
    steps = planned(
        dataclasses.replace(state(TOLD._replace(now={**TOLD.now, "persistence": False}))),
        {"power_limit": 500, "persistence": True},
    ).steps
    assert [step.params["name"] for step in steps] == ["persistence", "power_limit"]
