# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What sets GPUs again: when they may have lost what they were set to, the files, and the units."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._settings import boot
from ansible_collections.gpu.node.plugins.module_utils._settings.boot import Mark
from ansible_collections.gpu.node.plugins.module_utils._settings.plan import (
    SettingsNode,
    compared,
    lost,
)
from ansible_collections.gpu.node.plugins.module_utils._settings.rules import parse
from ansible_collections.gpu.node.plugins.module_utils._settings.state import (
    GpuState,
    Kept,
    Lock,
    current_values,
)

from tests.pure.library.settings.test_settings_plan import GPU, LOAD, TOLD, UUID

SEEN = Mark("boot/1", "daemon", False, 5000)


@pytest.mark.parametrize(
    ("later", "words"),
    [
        (SEEN, ""),
        (SEEN._replace(energy=9000), ""),
        (SEEN._replace(energy=None), ""),
        (SEEN._replace(energy=4999), "it was reset"),
        (SEEN._replace(load="boot/2", energy=9000), "the driver was loaded"),
        (SEEN._replace(mig=True), "its MIG mode was switched"),
        (SEEN._replace(daemon="other"), "nvidia-persistenced.service was started"),
    ],
)
def test_a_gpu_may_have_lost_its_settings_since_an_event_and_not_since_a_hand(
    later: Mark, words: str
) -> None:
    assert later.since(SEEN) == words


def test_what_was_not_seen_in_this_boot_may_have_lost_them() -> None:
    assert SEEN.since(None) == "it was not set since the boot"


def test_what_was_seen_is_read_as_it_was_written() -> None:
    marks = {UUID: SEEN, "GPU-other": Mark()}
    assert boot.load_seen(boot.dump_seen(marks)) == marks
    assert boot.load_seen(None) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"energy": True},
        {"energy": 1.5},
        {"mig": 1},
        {"load": None},
        {"daemon": "x" * 501},
        {"more": 1},
    ],
)
def test_a_file_of_what_was_seen_that_is_damaged_is_named(change: dict[str, Any]) -> None:
    text = json.dumps({"version": 1, "gpus": {UUID: {**SEEN._asdict(), **change}}})
    with pytest.raises(NodeError, match=r"/run/gpu-node/settings\.json is damaged.*remove it"):
        boot.load_seen(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"rules": 1}', '{"rules": [{}]}'])
def test_rules_that_are_damaged_are_refused(text: str) -> None:
    with pytest.raises(NodeError):
        boot.load(text, "/x")


def test_rules_are_read_as_they_were_written() -> None:
    rules = [{"match": {"index": [0]}, "power_limit": "80%"}]
    assert boot.load(boot.dump(rules), "/x") == (rules, parse(rules))


def state(**now_told: Any) -> GpuState:
    told = TOLD._replace(present={**TOLD.present, **now_told})
    kept = Kept(before={"accounting": True}, locks={"gpu_clocks": Lock((300, 1200), LOAD)})
    told = told._replace(running={"gpu_clocks": 1200})
    return GpuState(GPU, told, current_values(told, kept, LOAD), kept)


def test_what_is_lost_is_set_again_and_no_more_than_rules_name() -> None:
    rules = parse([{"power_limit": 560, "ecc": False, "gpu_clocks": [300, 1200]}])
    steps, refused = lost(state(), rules, SettingsNode())
    assert [one.params["name"] for one in steps] == ["power_limit"]
    assert refused == ()


def test_what_is_refused_of_one_setting_keeps_no_other_back() -> None:
    rules = parse([{"power_limit": 900, "compute_mode": "prohibited", "accounting": True}])
    busy = dataclasses.replace(state(), users=("process 7 (train)",))
    steps, refused = lost(busy, rules, SettingsNode())
    assert [one.params["name"] for one in steps] == ["accounting"]
    assert [one.partition(":")[0] for one in refused] == ["rules[0].power_limit", f"GPU 0 ({UUID})"]
    assert "process 7 (train)" in refused[1]


def test_each_declared_setting_is_compared_in_words() -> None:
    rules = parse(
        [{"power_limit": 560, "ecc": True, "gpu_clocks": [300, 1200], "memory_clocks": "default"}]
    )
    found = compared(state(), rules)
    assert [tuple(one) for one in found] == [
        ("power_limit", "700 W", "560 W", True),
        ("gpu_clocks", "300 to 1200 MHz", "300 to 1200 MHz", False),
        ("memory_clocks", "not locked", "not locked", False),
        ("ecc", "on", "on", False),
    ]


def test_ecc_that_waits_for_a_reset_is_no_drift() -> None:
    waits = dataclasses.replace(state(), reported=state().reported._replace(ecc_next=False))
    (one,) = compared(waits, parse([{"ecc": False}]))
    assert not one.drifted


def values(text: str, key: str) -> list[str]:
    lines = [line.partition("=") for line in text.splitlines()]
    return [word for name, _equals, value in lines if name == key for word in value.split()]


def test_the_unit_runs_at_boot_after_the_layout_and_with_each_start_of_the_persistence_daemon() -> (
    None
):
    text = boot.SERVICE_TEXT
    assert values(text, "WantedBy") == ["multi-user.target", "nvidia-persistenced.service"]
    assert "gpu-mig.service" in values(text, "After")
    assert "slurmd.service" in values(text, "Before")
    # It ends, so that it can be started again, and its failure is nobody's.
    assert not values(text, "RemainAfterExit")
    assert not values(text, "RequiredBy")
    assert values(boot.PATH_TEXT, "PathChanged") == ["/run/gpu-node/mig.json"]
