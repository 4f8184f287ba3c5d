# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Plans for settings: what is set, what waits, what is refused, and that a second plan is empty."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import NAMES, Gpu, SettingsTold
from ansible_collections.gpu.node.plugins.module_utils._settings.plan import (
    FORGET,
    SettingsNode,
    plan,
)
from ansible_collections.gpu.node.plugins.module_utils._settings.rules import parse
from ansible_collections.gpu.node.plugins.module_utils._settings.state import (
    GpuState,
    Kept,
    Lock,
    current_values,
    dump,
)
from ansible_collections.gpu.node.plugins.module_utils._settings.state import parse as read
from hypothesis import given
from hypothesis import strategies as st

UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
GPU = Gpu(
    0, UUID, "NVIDIA H100 80GB HBM3", "0000:3b:00.0", 0, 1 << 36, (9, 0), True, False, False, 0
)
TOLD = SettingsTold(
    present={
        "persistence": True,
        "power_limit": 700_000,
        "power_profiles": (),
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
    profiles={"max_p": ("max_q",), "max_q": ("max_p",), "network": (), "llm_training": ()},
    enforced={"power_limit": 700_000, "power_profiles": ()},
)
LOAD = "boot/1"
GOOD = SettingsNode()


def state(told: SettingsTold = TOLD, kept: Kept | None = None, **more: Any) -> GpuState:
    kept = kept or Kept()
    return GpuState(GPU, told, current_values(told, kept, LOAD), kept, **more)


def planned(one: GpuState, *rules: dict[str, Any], node: SettingsNode = GOOD) -> Any:
    return plan([one], parse(rules), node)[0]


def carried_out(one: GpuState, steps: Any) -> GpuState:
    """Return the GPU as it is after steps, as the capability keeps of it what it was before."""
    told, kept = one.reported, one.record
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
        kept = kept._replace(before={name: one.values[name], **kept.before})
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
            told = told._replace(present={**told.present, name: value})
    return state(told, kept)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "power_profiles": st.lists(st.sampled_from(["max_q", "network", "llm_training"]), min_size=1)
    | st.sampled_from(["max_p", "default"]),
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
        assert read(dump({UUID: after.record})) == {UUID: after.record}
    back = carried_out(after, planned(after).steps)
    assert back.record == Kept()
    assert back.values == first.values
    assert back.reported.ecc_next is True


def test_what_no_rule_names_any_more_becomes_what_it_was() -> None:
    after = carried_out(state(), planned(state(), {"power_limit": 550, "accounting": True}).steps)
    words = [step.summary for step in planned(after, {"accounting": True}).steps]
    assert words == [
        f"GPU 0 ({UUID}): set power_limit from 550 W to 700 W",
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
    assert (current_values(told, kept, load)["gpu_clocks"] == (300, 1200)) is holds


def test_an_ecc_mode_waits_for_a_reset_and_is_told() -> None:
    one = planned(state(), {"ecc": False})
    assert [step.params["value"] for step in one.steps] == [False]
    after = carried_out(state(), one.steps)
    assert planned(after, {"ecc": False}).reboot_required == (
        f"GPU 0 ({UUID}): ECC is off after a reset of the GPU or a reboot",
    )
    assert planned(after, {"persistence": True}).reboot_required == ()


def test_a_setting_that_a_gpu_does_not_have_is_left_out_and_said() -> None:
    none = TOLD._replace(present={"persistence": True}, clocks={}, ecc_next=None)
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
        planned(state(), {"gpu_clocks": 1200}, node=SettingsNode(slurm_clocks=True))
    assert planned(state(), {"power_limit": 500}, node=SettingsNode(slurm_clocks=True)).steps


def test_accounting_can_not_be_on_in_mig_mode_and_comes_back_with_nothing() -> None:
    gpu = dataclasses.replace(GPU, mig_current=True)
    mig = dataclasses.replace(state(), gpu=gpu)
    with pytest.raises(NodeError, match="the GPU is in MIG mode, in which the driver keeps it off"):
        planned(mig, {"accounting": True})
    assert planned(mig, {"accounting": False, "power_limit": 500}).steps
    was_on = dataclasses.replace(mig, record=Kept({"accounting": True}))
    assert [step.action for step in planned(was_on).steps] == [FORGET]


def test_a_compute_mode_can_not_be_set_in_mig_mode() -> None:
    mig = dataclasses.replace(state(), gpu=dataclasses.replace(GPU, mig_current=True))
    with pytest.raises(
        NodeError, match=r"GPU 0 .*: compute_mode can't be exclusive process: "
    ) as no:
        planned(mig, {"compute_mode": "exclusive_process"})
    assert "leave compute_mode out of the rules for GPUs in MIG mode" in no.value.hint
    assert planned(mig, {"compute_mode": "default", "power_limit": 500}).steps
    was_set = dataclasses.replace(mig, record=Kept({"compute_mode": "prohibited"}))
    assert [step.action for step in planned(was_set).steps] == [FORGET]


def test_what_a_layout_to_come_rules_out_is_refused_before() -> None:
    first = dataclasses.replace(state(), partitioned=True)
    for rule in ({"compute_mode": "exclusive_process"}, {"accounting": True}):
        with pytest.raises(NodeError, match="is to be in MIG mode") as refused:
            planned(first, rule)
        assert refused.value.stays
    assert planned(first, {"power_limit": 500, "accounting": False}).steps


@pytest.mark.parametrize("rule", [{"compute_mode": "exclusive_process"}, {"accounting": True}])
def test_a_layout_to_come_that_ends_mig_mode_allows_what_that_rules_out(
    rule: dict[str, Any],
) -> None:
    mig = dataclasses.replace(state(), gpu=dataclasses.replace(GPU, mig_current=True))
    with pytest.raises(NodeError, match="the GPU is in MIG mode"):
        planned(mig, rule)
    (step,) = planned(dataclasses.replace(mig, partitioned=False), rule).steps
    assert next(iter(rule)) in step.summary


def test_a_gpu_in_quarantine_is_left_alone_and_named() -> None:
    aside = state(aside="in quarantine since 2026-11-01T00:00:00Z by an operator: RMA")
    one = planned(aside, {"power_limit": 500})
    assert one.steps == ()
    assert one.warnings == (f"settings: left alone: GPU 0 ({UUID}) is {aside.aside}",)


def test_what_can_not_be_read_is_told_apart_from_what_is_not_there_and_from_what_nobody_asks_for() -> (
    None
):
    now = {name: value for name, value in TOLD.present.items() if name != "accounting"}
    broken = state(TOLD._replace(present=now, failed={"accounting": "timed out"}))
    assert planned(broken, {"power_limit": 500}).steps
    with pytest.raises(NodeError, match=r"accounting can't be read: timed out"):
        planned(broken, {"accounting": True})
    with pytest.raises(NodeError, match=r"accounting can't be read: timed out"):
        planned(dataclasses.replace(broken, record=Kept({"accounting": False})))


def test_what_a_change_needs_is_known_with_its_step() -> None:
    rules = {"ecc": False, "power_limit": 500, "power_profiles": "max_q", "compute_mode": "default"}
    steps = planned(state(), rules).steps
    assert {step.params["name"]: step.needs for step in steps} == {
        "power_limit": (),
        "power_profiles": (),
        "ecc": ("reset",),
    }


@pytest.mark.parametrize(
    ("asked", "capped", "words"),
    [
        (600, 500, "power_limit is set to 600 W, and 500 W holds: something else caps it, such as"),
        (450, 500, ""),
        (700, 700, ""),
    ],
)
def test_a_cap_below_the_limit_is_told_and_changes_nothing_for_ever(
    asked: int, capped: int, words: str
) -> None:
    told = TOLD._replace(enforced={"power_limit": capped * 1000})
    before = state(told)
    one = planned(before, {"power_limit": asked})
    assert [text for text in one.warnings if words not in text] == []
    assert bool(one.warnings) is bool(words)
    after = carried_out(before, one.steps)
    again = planned(after, {"power_limit": asked})
    assert (again.steps, bool(again.warnings)) == ((), bool(words))
    assert planned(before, {"accounting": True}).warnings == ()


def test_power_profiles_that_are_not_enforced_are_told() -> None:
    now = {**TOLD.present, "power_profiles": ("max_q", "network")}
    told = TOLD._replace(present=now, enforced={"power_profiles": ("network",)})
    (warning,) = planned(state(told), {"power_profiles": ["network", "max_q"]}).warnings
    assert "power_profiles is set to max_q, network, and network holds: the GPU's" in warning
    assert planned(state(told), {"power_profiles": "max_p"}).warnings == ()


def test_what_is_lost_with_the_last_process_is_warned_of() -> None:
    off = state(TOLD._replace(present={**TOLD.present, "persistence": False}))
    (warning,) = planned(off, {"power_limit": 500, "gpu_clocks": 1200}).warnings
    assert "the driver forgets power_limit, gpu_clocks when the last process" in warning
    assert planned(off, {"power_limit": 500, "persistence": True}).warnings == ()


def test_persistence_without_its_service_is_called_the_legacy_mode() -> None:
    (warning,) = planned(state(), {"persistence": True}, node=SettingsNode(False)).warnings
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
        '{"version": 1, "gpus": {"x": {"before": {"power_profiles": ["turbo"]}, "locks": {}}}}',
        '{"version": 1, "gpus": {"x": {"before": {"power_profiles": 3}, "locks": {}}}}',
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
        dataclasses.replace(state(TOLD._replace(present={**TOLD.present, "persistence": False}))),
        {"power_limit": 500, "persistence": True},
    ).steps
    assert [step.params["name"] for step in steps] == ["persistence", "power_limit"]
