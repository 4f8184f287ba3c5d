# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Options that exclude each other are named before anything is changed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.capability import (
    PreflightCapability,
)

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import FakeRoom

NONE = {"flags": {"migStrategy": "none"}}
WHOLE = [{"devices": "all", "mig-enabled": False, "mig-devices": {}}]
PARTS = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]


def warnings(host: FakeHost, room: FakeRoom, **variables: Any) -> str:
    params = {
        "variables": variables,
        "components": ["mig", "device_plugin"],
        "cloud_init_timeout": 0,
        "refused": [],
    }
    capability = PreflightCapability(host, room, params, root=True)  # type: ignore[arg-type]
    return "\n".join(capability.plan(capability.observe()).warnings)


@pytest.mark.parametrize(
    "layout", [{"mig_config": {"it": PARTS}}, {"mig_selected": "all-balanced"}]
)
@pytest.mark.parametrize(
    "config",
    [
        {"device_plugin_config": NONE},
        {"device_plugin_configs": {"few": {"flags": {"MigStrategy": "none"}}}},
    ],
)
def test_strategy_none_with_a_layout_is_told(
    host: FakeHost, room: FakeRoom, config: dict[str, Any], layout: dict[str, Any]
) -> None:
    warning = warnings(host, room, **config, **layout)
    assert f"{next(iter(config))}" in warning
    assert "migStrategy none advertises no GPU in MIG mode" in warning
    assert "Next step: set migStrategy to mixed or single" in warning


@pytest.mark.parametrize(
    "variables",
    [
        {"mig_config": {"it": PARTS}},
        {"device_plugin_config": NONE, "mig_config": {"it": WHOLE}},
        {"device_plugin_config": NONE, "mig_selected": "all-disabled"},
        {"device_plugin_config": NONE, "mig_state": "absent"},
        {"device_plugin_config": NONE},
        {
            "device_plugin_config": {
                "flags": {"migStrategy": "none", "plugin": {"deviceListStrategy": "envvar"}}
            },
            "mig_config": {"it": PARTS},
            "container_runtime_mode": "runtime_class",
        },
    ],
)
def test_options_that_go_together_are_not_told(
    host: FakeHost, room: FakeRoom, variables: dict[str, Any]
) -> None:
    assert "migStrategy" not in warnings(host, room, **variables)
