# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan for node labels and for configurations that a label chooses."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import (
    LABELS_UNIT,
    UNIT,
    plan,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    CONFIG,
    CONFIGS,
    SETTINGS,
    UNITS,
    DesiredPlugin,
    PluginState,
    Service,
    env_variables,
    settings,
)

from tests.fakes.library.agent_nodes import (
    FILES,
    FRESH,
    LABELS,
    MPS_UNIT,
    NAMED,
    ON,
    PREFIX,
    WANTED,
    actions,
    changed,
)
from tests.fakes.library.agent_nodes import RUNNING as UNLABELLED

TEXT = settings(LABELS, choosing=False)
CHOOSING = settings(LABELS, choosing=True)
DEFAULT, MANY = f"{CONFIGS}/default", f"{CONFIGS}/many"
SOME = {DEFAULT: "a", MANY: "b"}
LABELLED = dataclasses.replace(WANTED, labels=TEXT)
CHOOSES = dataclasses.replace(WANTED, labels=CHOOSING, configs=SOME)
UNIT_FILE = f"{UNITS}/{LABELS_UNIT}"
ABSENT = ["unlabel", f"remove_service {LABELS_UNIT}", "remove labels.env"]


def labels(text: str = TEXT, release: str = "new", **properties: str) -> Service:
    variables = {
        "GPU_NODE_RELEASE": release,
        "GPU_LABELS_SETTINGS": env_variables(text).get("GPU_LABELS_SETTINGS", text),
    }
    return Service({**ON, **properties}, variables)


def running(text: str = TEXT, **changes: Any) -> PluginState:
    """A node that is labelled, with these settings."""
    files = {**FILES, SETTINGS: text, UNIT_FILE: NAMED[LABELS_UNIT]}
    return changed(UNLABELLED, **{"files": files, "labels": labels(text), **changes})


def choosing(link: str | None, **changes: Any) -> PluginState:
    """A node whose label has chosen a configuration."""
    files = {**running(CHOOSING).files.texts, **SOME}
    del files[CONFIG]
    return running(CHOOSING, files=files, link=link, **changes)


def planned(state: PluginState, desired: DesiredPlugin = LABELLED) -> list[str]:
    return actions(plan(state, desired, PREFIX))


def wanted(**changes: Any) -> DesiredPlugin:
    return dataclasses.replace(LABELLED, **changes)


def test_a_fresh_node_gets_the_service_after_the_daemon() -> None:
    steps = plan(FRESH, LABELLED, PREFIX).steps
    assert [step.params["unit"] for step in steps if step.action == "restart"] == [
        UNIT,
        LABELS_UNIT,
    ]
    assert planned(FRESH)[-4:] == ["file labels.env", f"file {LABELS_UNIT}", "enable", "restart"]
    assert planned(FRESH)[:-4] == planned(FRESH, WANTED)


def test_a_labelled_node_gets_nothing() -> None:
    assert planned(running()) == []
    assert planned(running(), WANTED) == []
    assert planned(UNLABELLED, WANTED) == []
    assert planned(UNLABELLED, wanted(state="installed", labels=None)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"files": {SETTINGS: "old"}}, ["file labels.env", "restart"]),
        ({"files": {UNIT_FILE: "old"}}, [f"file {LABELS_UNIT}", "restart"]),
        ({"labels": labels(UnitFileState="disabled")}, ["enable"]),
        ({"labels": labels(ActiveState="failed")}, ["restart"]),
        ({"labels": labels(release="old")}, ["restart"]),
        ({"labels": labels("old")}, ["restart"]),
        ({"files": {f"{CONFIGS}/left": "x"}}, ["remove left"]),
    ],
)
def test_what_an_interrupted_run_left_is_finished(
    change: dict[str, Any], expected: list[str]
) -> None:
    if "files" in change:
        change = {"files": {**running().files.texts, **change["files"]}}
    found = plan(running(**change), LABELLED, PREFIX)
    assert actions(found) == expected
    assert all(step.params.get("unit", LABELS_UNIT) == LABELS_UNIT for step in found.steps)


def test_a_new_release_restarts_the_service() -> None:
    steps = plan(running(current="old"), LABELLED, PREFIX).steps
    assert [step.params.get("unit") for step in steps] == [None, UNIT, LABELS_UNIT]


def test_labels_of_another_output_are_removed_first() -> None:
    other = wanted(labels=settings({**LABELS, "output": "file"}, choosing=False))
    assert planned(running(), other) == ["unlabel", "file labels.env", "restart"]
    assert plan(running(), other, PREFIX).steps[0].params == {"settings": TEXT}


def test_configurations_are_there_before_the_daemon_starts() -> None:
    found = plan(FRESH, CHOOSES, PREFIX)
    configs = ["config default", "config many", "link config.yaml"]
    assert actions(found)[:5] == ["release", *configs, f"file {MPS_UNIT}"]
    assert found.steps[1].summary == f"write {DEFAULT}, checked by the device plugin first"
    assert found.steps[2].params == {"path": MANY, "text": "b"}


@pytest.mark.parametrize("link", [DEFAULT, MANY])
def test_the_link_is_the_labels_business_once_it_is_there(link: str) -> None:
    assert planned(choosing(link), CHOOSES) == []


def test_another_text_of_one_that_is_not_the_default_restarts_nothing() -> None:
    other = dataclasses.replace(CHOOSES, configs={**SOME, MANY: "c"})
    assert planned(choosing(MANY), other) == ["config many"]


def test_a_link_that_leads_nowhere_is_corrected_and_the_daemon_waited_for() -> None:
    found = plan(choosing(f"{CONFIGS}/gone"), CHOOSES, PREFIX)
    assert actions(found) == ["link config.yaml", "wait"]
    assert found.steps[1].summary == "wait until the device plugin follows its configuration"


def test_without_configurations_the_file_is_its_own_again() -> None:
    names = planned(choosing(MANY))
    restored = ["config config.yaml", "remove default", "remove many", "restart"]
    # What still chooses would make the link again.
    assert names == ["pause", *restored, "file labels.env", "restart"]


def test_off_removes_all() -> None:
    assert planned(running(), wanted(labels="")) == ABSENT
    assert planned(UNLABELLED, wanted(labels="")) == []
    assert plan(running(), wanted(labels=""), PREFIX).steps[0].params == {"settings": TEXT}


def test_absent_removes_labels_while_the_daemon_is_there() -> None:
    names = planned(choosing(MANY), wanted(state="absent", digest="", labels=None))
    assert names[:4] == [*ABSENT, f"remove_service {UNIT}"]
    assert {"remove default", "remove many", "remove config.yaml"} < set(names)
    assert names[-1] == "clear gpu-node"


def test_stopped_keeps_all() -> None:
    found = plan(running(), wanted(state="stopped", digest="", labels=None), PREFIX)
    assert [step.params for step in found.steps] == [{"unit": LABELS_UNIT}, {"unit": UNIT}]
    off = labels(ActiveState="inactive", UnitFileState="disabled")
    stopped = running(labels=off, daemon=off)
    assert planned(stopped, wanted(state="stopped", digest="")) == []


def test_the_diff_has_what_the_steps_change() -> None:
    found = plan(choosing(MANY), LABELLED, PREFIX)
    assert found.before["files"] == choosing(MANY).files.texts
    assert found.after["files"] == {**running().files.texts}
    gone = plan(running(), wanted(state="absent", digest=""), PREFIX).after
    assert gone == {"release": None, "files": {}, "service": "absent", "mps": []}
