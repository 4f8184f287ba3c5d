# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM holds the GPUs open: ours makes way for changes, and somebody else's is named with what to do."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.services.dcgm import RECORD
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan, Step
from ansible_collections.gpu.node.plugins.module_utils._mig.capability import MigCapability
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.exporter import (
    DCGM_UNIT,
    UNIT,
)
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.state import Record

from tests.fakes.packages import debian
from tests.fakes.packages.debian import DRIVER, LOADED, Debian

OLDER = "535.261.03"
OURS = Record(managed=frozenset({DCGM_UNIT, UNIT})).dump()


def scene(unit: str, record: str = "") -> Debian:
    """Return a node whose loaded driver is older than its packages, with an engine of DCGM."""
    node = Debian()
    debian.converge(node)
    node.files[DRIVER] = LOADED.format(OLDER)
    node.files["/sys/module/nvidia"] = ""
    node.files["/proc/812/comm"] = "nv-hostengine\n"
    node.files["/proc/812/cgroup"] = f"0::/system.slice/{unit}\n"
    node.files["/proc/1/cgroup"] = "0::/init.scope\n"
    node.links["/proc/812/fd/5"] = "/dev/nvidia0"
    if record:
        node.files[RECORD] = record
    node.commands[("systemctl", "is-active")] = "active\n"
    return node


def plan(node: Debian, **params: Any) -> Any:
    one = debian.capability(node, reload="when_idle", **params)
    return one, one.plan(one.observe())


def test_engine_of_ours_is_stopped_and_started_around_the_reload() -> None:
    node = scene(DCGM_UNIT, OURS)
    one, found = plan(node)
    assert [step.action for step in found.steps] == ["stop_services", "reload", "start_services"]
    ran = len(node.ran)
    for step in found.steps:
        one.apply(step)
    calls = [words[1:] for words in node.ran[ran:] if words[0] == "systemctl"]
    persistence = "nvidia-persistenced.service"
    assert [one for one in calls if one[0] not in ("is-active", "show")] == [
        ("stop", UNIT),
        ("stop", DCGM_UNIT),
        ("stop", persistence),
        ("start", persistence),
        ("start", DCGM_UNIT),
        ("start", UNIT),
    ]


@pytest.mark.parametrize("record", ["", Record(managed=frozenset({UNIT})).dump()])
def test_engine_of_somebody_else_is_named_with_the_next_step(record: str) -> None:
    _one, found = plan(scene(DCGM_UNIT, record))
    assert found.steps == ()
    reason = found.reboot_required[0]
    assert "812 (nv-hostengine, nvidia-dcgm.service)" in reason
    assert "systemctl stop nvidia-dcgm.service" in reason
    assert "dcgm_state: present" in reason


def test_engine_elsewhere_than_in_the_unit_is_a_user_of_the_gpus() -> None:
    _one, found = plan(scene("docker-1.scope", OURS))
    assert "812 (nv-hostengine)" in found.reboot_required[0]


class Done:
    """What carries steps out, which then have to find DCGM stopped."""

    def __init__(self, node: Debian) -> None:
        self.node, self.skipped, self.ran = node, [], []  # type: ignore[var-annotated]

    def carry_out(self, step: Step, _state: object) -> None:
        self.ran.append(
            [words[1:] for words in self.node.ran if words[:2] == ("systemctl", "stop")]
        )


def test_engine_of_ours_makes_way_for_all_changes_of_a_mig_layout() -> None:
    node = scene(DCGM_UNIT, OURS)
    node.ran.clear()
    params = {"config": None, "selected": "all-disabled", "boot": False, "reset": "never"}
    params |= {"on_busy": "fail", "on_allocated": "ignore", "wait_timeout": 0, "stop_services": []}
    params |= {"lock_timeout": 0, "by_label": False, "state": "present"}
    one = MigCapability(node, params, check_mode=False)  # type: ignore[arg-type]
    one._nvml, one._changes, one._states = object(), Done(node), {"": object()}  # type: ignore
    steps = (
        Step("create", "create an instance"),
        Step("destroy", "destroy an instance", needs=("idle_gpu",)),
        Step("destroy", "destroy another", needs=("idle_gpu",)),
    )
    for step in one._services.around(Plan(steps)).steps:
        one.apply(step)
    stopped = [("stop", UNIT), ("stop", DCGM_UNIT)]
    assert one._changes.ran == [[], stopped, stopped]  # type: ignore[union-attr]
    started = [words[2] for words in node.ran if words[:2] == ("systemctl", "start")]
    assert started == [DCGM_UNIT, UNIT]
