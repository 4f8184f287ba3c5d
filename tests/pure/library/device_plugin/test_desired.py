# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the options of gpu.node.device_plugin ask for."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    CONFIG,
    CONFIGS,
    DesiredPlugin,
    check_configs,
    env_variables,
    parse_desired,
    settings,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.agent_nodes import LABELS


def make(state: str, labels: dict[str, Any] | None, **configs: Any) -> DesiredPlugin:
    params = {"state": state, "labels": labels, "config": {"plain": 1}, "configs": configs}
    python = {"python": None, "install_python": False, "require_kubelet": False}
    allocation = {
        "allocation": "device_plugin",
        "dra": {"devices": [], "kubeconfig": "", "node_name": ""},
    }
    return parse_desired({**params, **python, **allocation, "units": {}, "digest": "d"})


@pytest.mark.parametrize("state", ["stopped", "absent", "installed"])
def test_a_teardown_may_know_of_configurations_and_of_no_labels(state: str) -> None:
    assert make(state, None, many={}).labels is None
    assert make(state, {**LABELS, "node_name": "a\nb"}).labels is None


def test_configurations_need_somebody_who_chooses() -> None:
    with pytest.raises(NodeError, match="configs: nothing would choose one of them"):
        make("started", None, many={})
    off = make("started", {**LABELS, "output": "off"}, many={})
    assert 'CONFIG_FILE_SRCDIR="/etc/gpu-node/configs"' in (off.labels or "")


def test_the_plain_configuration_is_the_default_one() -> None:
    alone = make("started", LABELS)
    assert (list(alone.configs), alone.config_file) == ([CONFIG], "/etc/gpu-node/config.yaml")
    among = make("started", LABELS, many={}, another={})
    assert [*among.configs] == [f"{CONFIGS}/{name}" for name in ("default", "another", "many")]
    assert among.configs[among.config_file] == alone.configs[CONFIG]
    own = make("started", LABELS, default={"version": "v1"}, another={})
    assert own.config_file == f"{CONFIGS}/default"
    assert "plain" not in own.configs[own.config_file]


def test_settings_of_labels_become_environment_variables() -> None:
    assert settings({**LABELS, "output": "off"}, choosing=False) == ""
    chosen = {**LABELS, "extra": {"b/c": "1", "a": "2"}, "node_name": "n"}
    found = env_variables(settings(chosen, choosing=True))
    digest = found.pop("GPU_LABELS_SETTINGS")
    assert found == {
        "GPU_LABELS_OUTPUT": "api",
        "GPU_LABELS_EXTRA": "a=2,b/c=1",
        "NODE_NAME": "n",
        "CONFIG_FILE_SRCDIR": CONFIGS,
        "CONFIG_FILE_DST": CONFIG,
    }
    other = env_variables(settings(LABELS, choosing=True))
    assert digest != other["GPU_LABELS_SETTINGS"]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"example.com/rack": "row 12"}, "labels.extra: example.com/rack: 'row 12' is not valid"),
        ({"example.com/rack": "a" * 64}, "expected up to 63 letters, digits, dashes"),
        ({"example.com/gpu": True}, "True is not valid: expected a text, such as 'yes'"),
        ({"example.com/row": 8}, "8 is not valid: expected a text"),
        ({"example.com/a b": "c"}, "labels.extra: 'example.com/a b' is not valid"),
        ({"node-role.kubernetes.io/gpu": "a"}, "expected a key that a node may set"),
    ],
)
def test_a_label_that_the_api_server_refuses_is_refused(
    extra: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refusal:
        make("started", {**LABELS, "extra": extra})
    assert message in str(refusal.value)


def test_the_default_is_one_of_the_configurations() -> None:
    labels = {**LABELS, "default_config": "trainig"}
    with pytest.raises(InputError, match=r"labels.default_config: 'trainig' .* default, training"):
        make("started", labels, training={})
    assert make("started", {**labels, "default_config": "training"}, training={}).labels
    assert make("started", labels).labels is not None  # nothing is chosen among one


def test_the_cluster_is_told_of_health_as_asked() -> None:
    told = env_variables(settings({**LABELS, "events": False, "condition": True}, choosing=False))
    assert (told["GPU_NODE_EVENTS"], told["GPU_NODE_CONDITION"]) == ("false", "true")
    alone = settings({**LABELS, "output": "off", "condition": True}, choosing=False)
    assert env_variables(alone)["GPU_LABELS_OUTPUT"] == "off"  # there is something to run


@given(
    st.text(
        st.characters(min_codepoint=32, exclude_categories=["Zl", "Zp", "Cs", "Cc"]), min_size=1
    )
)
def test_every_text_comes_through_the_file(text: str) -> None:
    found = env_variables(settings({**LABELS, "kubeconfig": text}, choosing=False))
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
