# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan for the device plugin."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import (
    UNIT,
    plan,
    serving,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import CONFIG, Service
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.agent_nodes import (
    FILES,
    FRESH,
    MPS_UNIT,
    NAMED,
    PREFIX,
    RUNNING,
    STATUS,
    WANTED,
    actions,
    changed,
    daemon,
    seen,
    with_files,
)


def test_fresh_node_gets_everything_in_order() -> None:
    found = plan(FRESH, WANTED, PREFIX)
    assert actions(found) == [
        *("release", "config config.yaml", f"file {MPS_UNIT}", f"file {UNIT}"),
        *("enable", "restart"),
    ]
    assert f"{PREFIX}/releases/new" in found.steps[0].summary
    assert found.steps[-1].summary.startswith(f"start {UNIT}")


def test_running_node_gets_nothing() -> None:
    assert actions(plan(RUNNING, WANTED, PREFIX)) == []
    assert serving(RUNNING) == ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"current": "old", **daemon("old")}, ["release", "restart"]),
        ({"damage": "its files are gone"}, ["release", "restart"]),
        (with_files(config="version: v1\nflags: {}\n"), ["config config.yaml", "restart"]),
        (with_files(unit="[Unit]\nDescription=older\n"), [f"file {UNIT}", "restart"]),
        (with_files(mps_unit="older"), [f"file {MPS_UNIT}"]),  # nothing is shared
        (daemon("old"), ["restart"]),
        ({"config_digest": "changed-by-hand"}, ["restart"]),
        (daemon(ActiveState="failed"), ["restart"]),
        (daemon(UnitFileState="disabled"), ["enable"]),
        (daemon(NeedDaemonReload="yes"), ["restart"]),
        ({"status": {}}, ["wait"]),
        ({"devices": frozenset(["GPU-0"])}, ["wait"]),
        ({"status": {**STATUS, "state": "waiting", "problem": "no driver"}}, ["wait"]),
        ({"status": {**STATUS, "resources": {"r": {"registered": False}}}}, ["wait"]),
    ],
)
def test_each_drift_has_its_own_repair(changes: dict[str, Any], expected: list[str]) -> None:
    assert actions(plan(seen(**changes), WANTED, PREFIX)) == expected


def test_restart_of_what_runs_is_announced() -> None:
    step = plan(seen(**with_files(config="other")), WANTED, PREFIX).steps[-1]
    assert step.needs == (f"restart:{UNIT}",)
    assert step.summary == f"restart {UNIT}: what it runs on changes"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": {**STATUS, "state": "waiting", "problem": "no driver"}}, "waiting: no driver"),
        ({"devices": frozenset()}, "has not noticed a change of the GPUs"),
        ({"status": {**STATUS, "resources": {"r": {"registered": False}}}}, "has not accepted r"),
        (
            {
                "status": {
                    **STATUS,
                    "resources": {"r": {"registered": False}},
                    "registration_problem": "can't listen",
                }
            },
            "has not accepted r (can't listen)",
        ),
        ({"status": {**STATUS, "config_sha256": "x"}}, "another configuration"),
        (
            {"status": {**STATUS, "config_sha256": "x", "config_problem": "line 2: unknown key"}},
            "another configuration, since it refuses the one on disk: line 2: unknown key",
        ),
    ],
)
def test_what_is_not_served_has_a_reason(changes: dict[str, Any], words: str) -> None:
    assert words in serving(seen(**changes))


def test_without_a_kubelet_registration_is_not_waited_for() -> None:
    late = {**STATUS, "resources": {"r": {"registered": False}}}
    assert serving(seen(kubelet=False, status=late)) == ""


def test_no_python_and_no_ensurepip() -> None:
    with pytest.raises(NodeError, match=r"no Python from 3\.10 to 3\.14"):
        plan(changed(FRESH, python=""), WANTED, PREFIX)
    bare = changed(FRESH, ensurepip=False)
    assert actions(plan(bare, WANTED, PREFIX))[:2] == ["venv_package", "release"]
    with pytest.raises(NodeError, match="ensurepip is missing"):
        plan(changed(bare, apt=False), WANTED, PREFIX)


def test_installed_is_the_environment_alone() -> None:
    wanted = dataclasses.replace(WANTED, state="installed")
    assert actions(plan(FRESH, wanted, PREFIX)) == ["release"]
    assert actions(plan(seen(files={}, daemon=Service()), wanted, PREFIX)) == []


def test_stopped_keeps_everything_but_the_service() -> None:
    wanted = dataclasses.replace(WANTED, state="stopped", digest="")
    assert actions(plan(RUNNING, wanted, PREFIX)) == ["stop"]
    enabled = daemon(ActiveState="inactive")
    assert actions(plan(seen(**enabled), wanted, PREFIX)) == ["stop"]
    off = daemon(ActiveState="inactive", UnitFileState="disabled")
    assert actions(plan(seen(**off), wanted, PREFIX)) == []
    assert actions(plan(FRESH, wanted, PREFIX)) == []


def test_absent_takes_back_what_is_there() -> None:
    wanted = dataclasses.replace(WANTED, state="absent", digest="")
    assert actions(plan(RUNNING, wanted, PREFIX)) == [
        f"remove_service {UNIT}",
        "remove config.yaml",
        f"remove {MPS_UNIT}",
        "clear gpu-node",
    ]
    assert actions(plan(FRESH, wanted, PREFIX)) == []
    bare = seen(files={}, current="")
    assert actions(plan(bare, wanted, PREFIX)) == ["clear gpu-node"]
    assert plan(bare, wanted, PREFIX).steps[0].params == {"path": PREFIX}


@given(
    current=st.sampled_from(["", "old", "new"]),
    damage=st.sampled_from(["", "it was not finished"]),
    config=st.sampled_from([None, "other", FILES[CONFIG]]),
    unit=st.sampled_from([None, "other", NAMED[UNIT]]),
    active=st.sampled_from(["active", "inactive", "failed"]),
    enabled=st.sampled_from(["enabled", "disabled", ""]),
    running=st.sampled_from(["", "old", "new"]),
)
def test_from_anywhere_the_service_ends_as_wanted(
    current: str,
    damage: str,
    config: str | None,
    unit: str | None,
    active: str,
    enabled: str,
    running: str,
) -> None:
    state = seen(
        current=current,
        damage=damage,
        **with_files(config=config, unit=unit),
        **daemon(running, ActiveState=active, UnitFileState=enabled),
    )
    done = {action.split()[0] for action in actions(plan(state, WANTED, PREFIX))}
    assert ("release" in done) == (current != "new" or bool(damage))
    assert ("config" in done) == (config != FILES[CONFIG])
    assert ("file" in done) == (unit != NAMED[UNIT])
    assert ("enable" in done) == (enabled != "enabled")
    untouched = not done - {"restart", "wait"}
    assert ("restart" in done) == (not untouched or active != "active" or running != "new")
