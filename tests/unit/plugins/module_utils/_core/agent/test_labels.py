# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan for node labels and for configurations that a label chooses."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.agent.labels import (
    CONFIG,
    CONFIGS,
    Desired,
    Observed,
    check_configs,
    compose,
    environment,
    settings,
)
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._core.steps import Plan, Step
from hypothesis import given
from hypothesis import strategies as st

LABELS = {
    "output": "api",
    "kubeconfig": "",
    "node_name": "",
    "namespace": "",
    "extra": {},
    "default_config": "",
}
TEXT = settings(LABELS, choosing=False)
CHOOSING = settings(LABELS, choosing=True)
WANTED = Desired("started", True, TEXT, "[Unit]\n", "new", {})
SOME = {"default": "a", "many": "b"}
FRESH = Observed(None, None, {}, "", "", {}, None)
ON = {"ActiveState": "active", "UnitFileState": "enabled"}
RUNNING = Observed(TEXT, "[Unit]\n", ON, "new", environment(TEXT)["GPU_LABELS_SETTINGS"], {}, None)
RESTART = Plan(
    (
        Step("release", "r"),
        Step("config", f"write {CONFIG}"),
        Step("unit", "u"),
        Step("restart", "s"),
    )
)


def actions(observed: Observed, desired: Desired = WANTED, main: Plan | None = None) -> list[str]:
    return [step.action for step in compose(main or Plan(), observed, desired).steps]


def seen(**changes: Any) -> Observed:
    return dataclasses.replace(RUNNING, **changes)


def wanted(**changes: Any) -> Desired:
    return dataclasses.replace(WANTED, **changes)


def test_a_fresh_node_gets_the_service_after_the_daemon() -> None:
    assert actions(FRESH, main=RESTART) == [
        *("release", "config", "unit", "restart"),
        *("labels_settings", "labels_unit", "labels_enable", "labels_restart"),
    ]


def test_a_labelled_node_gets_nothing() -> None:
    assert actions(RUNNING) == []
    assert actions(RUNNING, wanted(managed=False, settings="")) == []
    assert actions(FRESH, wanted(managed=False, settings="")) == []
    assert actions(FRESH, wanted(state="installed")) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"settings": "old"}, ["labels_settings", "labels_restart"]),
        ({"unit": "old"}, ["labels_unit", "labels_restart"]),
        ({"service": {**ON, "UnitFileState": "disabled"}}, ["labels_enable", "labels_restart"]),
        ({"service": {**ON, "ActiveState": "failed"}}, ["labels_restart"]),
        ({"running": "old"}, ["labels_restart"]),
        ({"applied": "old"}, ["labels_restart"]),
        ({"configs": {"left": "x"}}, ["labels_forget"]),
    ],
)
def test_what_an_interrupted_run_left_is_finished(
    change: dict[str, Any], expected: list[str]
) -> None:
    assert actions(seen(**change)) == expected


def test_a_new_release_restarts_the_service() -> None:
    assert actions(RUNNING, main=RESTART)[-1] == "labels_restart"


def test_labels_that_go_another_way_are_taken_back_first() -> None:
    other = wanted(settings=settings({**LABELS, "output": "file"}, choosing=False))
    steps = ["labels_take_back", "labels_settings", "labels_restart"]
    assert actions(RUNNING, other) == steps


def test_configurations_are_there_before_the_daemon_starts() -> None:
    choosing = wanted(configs=SOME, settings=CHOOSING)
    found = compose(RESTART, FRESH, choosing)
    names = [step.action for step in found.steps]
    assert names[:5] == ["release", "config", "labels_config", "labels_link", "unit"]
    assert found.steps[1].summary == f"write {CONFIGS}/default"
    assert found.steps[2].params == {"name": "many", "text": "b"}


@pytest.mark.parametrize("link", ["default", "many"])
def test_the_link_is_the_labels_business_once_it_is_there(link: str) -> None:
    there = {"configs": SOME, "settings": CHOOSING, "link": f"{CONFIGS}/{link}"}
    there["applied"] = environment(CHOOSING)["GPU_LABELS_SETTINGS"]
    assert actions(seen(**there), wanted(configs=SOME, settings=CHOOSING)) == []


def test_a_link_that_leads_nowhere_is_mended_and_the_daemon_waited_for() -> None:
    there = {"configs": SOME, "settings": CHOOSING, "link": f"{CONFIGS}/gone"}
    there["applied"] = environment(CHOOSING)["GPU_LABELS_SETTINGS"]
    names = actions(seen(**there), wanted(configs=SOME, settings=CHOOSING))
    assert names == ["labels_link", "wait"]


def test_without_configurations_the_file_is_its_own_again() -> None:
    there = seen(configs=SOME, link=f"{CONFIGS}/many")
    names = actions(there, main=Plan((Step("config", "c"), Step("restart", "r"))))
    mended = ["config", "labels_unlink", "labels_forget", "labels_forget", "restart"]
    assert names == ["labels_pause", *mended]  # what still chooses would make the link again


def test_off_takes_all_back() -> None:
    names = ["labels_stop", "labels_take_back", "labels_remove"]
    assert actions(RUNNING, wanted(settings="")) == names
    assert actions(FRESH, wanted(settings="")) == []
    there = seen(configs=SOME, link=f"{CONFIGS}/many")
    assert actions(there, wanted(state="absent")) == [*names, "labels_forget_all"]
    assert actions(FRESH, wanted(state="absent")) == []


def test_stopped_keeps_all() -> None:
    assert actions(RUNNING, wanted(state="stopped")) == ["labels_stop"]
    off = {"ActiveState": "inactive", "UnitFileState": "disabled"}
    assert actions(seen(service=off), wanted(state="stopped")) == []


def test_settings() -> None:
    assert settings({**LABELS, "output": "off"}, choosing=False) == ""
    found = environment(
        settings({**LABELS, "extra": {"b/c": "1", "a": "2"}, "node_name": "n"}, choosing=True)
    )
    digest = found.pop("GPU_LABELS_SETTINGS")
    assert found == {
        "GPU_LABELS_WAY": "api",
        "GPU_LABELS_EXTRA": "a=2,b/c=1",
        "NODE_NAME": "n",
        "CONFIG_FILE_SRCDIR": CONFIGS,
        "CONFIG_FILE_DST": CONFIG,
    }
    assert digest != environment(CHOOSING)["GPU_LABELS_SETTINGS"]


@given(
    st.text(
        st.characters(min_codepoint=32, exclude_categories=["Zl", "Zp", "Cs", "Cc"]), min_size=1
    )
)
def test_every_text_comes_through_the_file(text: str) -> None:
    found = environment(settings({**LABELS, "kubeconfig": text}, choosing=False))
    assert found["KUBECONFIG"] == text


@pytest.mark.parametrize(
    ("configs", "managed", "words"),
    [
        ({"a b": {}}, True, "configs: a b: 'a b' is not valid: expected a name"),
        ({"../x": {}}, True, "is not valid: expected a name"),
        ({"a": "text"}, True, "configs: a: 'text' is not valid: expected a configuration"),
        ({"a": {}}, False, "the option labels is missing"),
    ],
)
def test_configurations_that_can_not_be_chosen(
    configs: dict[str, Any], managed: bool, words: str
) -> None:
    with pytest.raises(NodeError, match=words):
        check_configs(configs, managed)


def test_a_text_of_two_lines_is_refused() -> None:
    with pytest.raises(InputError, match=r"NODE_NAME: .* expected a text of one line"):
        settings({**LABELS, "node_name": "a\nb"}, choosing=False)
