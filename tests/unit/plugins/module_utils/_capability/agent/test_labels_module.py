# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the options of gpu.node.device_plugin ask of node labels."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.agent.labels import (
    OPTIONS,
    NodeLabels,
)
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.real import LocalHost

LABELS = {name: option.get("default") for name, option in OPTIONS["labels"]["options"].items()}


def make(state: str, labels: dict[str, Any] | None, **configs: Any) -> NodeLabels:
    params = {"state": state, "labels": labels, "configs": configs, "prefix": "/opt/gpu-node"}
    return NodeLabels(LocalHost(), {**params, "labels_unit": "u", "digest": "d"}, "plain")


@pytest.mark.parametrize("state", ["stopped", "absent", "installed"])
def test_a_teardown_may_know_of_configurations_and_of_no_labels(state: str) -> None:
    assert make(state, None, many={}).desired.settings == ""


def test_configurations_need_somebody_who_chooses() -> None:
    with pytest.raises(NodeError, match="configs: nothing would choose one of them"):
        make("started", None, many={})
    off = make("started", {**LABELS, "output": "off"}, many={})
    assert 'CONFIG_FILE_SRCDIR="/etc/gpu-node/configs"' in off.desired.settings


def test_the_plain_configuration_is_the_default_one() -> None:
    assert make("started", LABELS, many={}).desired.configs["default"] == "plain"
    own = make("started", LABELS, default={"version": "v1"})
    assert own.default == own.desired.configs["default"] != "plain"
    alone = make("started", LABELS)
    assert (alone.desired.configs, alone.config_file) == ({}, "/etc/gpu-node/config.yaml")
