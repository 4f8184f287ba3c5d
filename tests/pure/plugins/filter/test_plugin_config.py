# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a user writes of a configuration is merged over the role's default, wherever it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpu.node.plugins.action.preflight import configurations
from ansible_collections.gpu.node.plugins.filter.plugin_config import FilterModule
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine import modules
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.role_config import (
    DEFAULT,
    all_whole,
    whole,
)
from gpu_plugin.config import configuration

from tests.support.paths import REPOSITORY

BOTH = ("cdi-annotations", "cdi-cri")
METRICS = {"metricsAddress": "10.0.0.5:9402"}
WRITTEN = {
    "flags": {"plugin": {"deviceListStrategy": ["envvar"]}, "migStrategy": "none"},
    "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
    "version": "v1",
}


@pytest.mark.parametrize(
    ("given", "strategies", "migs"),
    [
        ({"version": "v1", "gpuNode": METRICS}, BOTH, "mixed"),
        ({"gpuNode": METRICS}, BOTH, "mixed"),
        ({"gpuNode": METRICS, "flags": {"migStrategy": "single"}}, BOTH, "single"),
        ({"gpuNode": METRICS, "flags": {"migstrategy": "single"}}, BOTH, "single"),
        ({"gpuNode": METRICS, "flags": None}, BOTH, "mixed"),
        (
            {"gpuNode": METRICS, "flags": {"plugin": {"deviceListStrategy": ["envvar"]}}},
            ("envvar",),
            "mixed",
        ),
    ],
)
def test_an_address_for_metrics_leaves_cdi_and_the_strategy(
    given: dict[str, Any], strategies: tuple[str, ...], migs: str
) -> None:
    read = configuration.parse(json.dumps(whole(given)))
    assert (read.containers.device_list_strategies, read.mig_strategy) == (strategies, migs)
    assert read.metrics == ("10.0.0.5", 9402)


def test_text_that_nobody_has_read_is_refused() -> None:
    merge = FilterModule().filters()["plugin_config"]
    with pytest.raises(AnsibleFilterError, match=r"device_plugin_config: it is a text.*from_yaml"):
        merge("version: v1\n")
    assert merge('{"version": "v1"}') == merge({"version": "v1"}) == DEFAULT


@pytest.mark.parametrize("empty", [None, {}])
def test_nothing_written_is_the_default(empty: Any) -> None:
    assert whole(empty) == DEFAULT


def test_a_configuration_that_says_all_of_it_is_the_same_text_as_before() -> None:
    assert json.dumps(whole(WRITTEN)) == json.dumps(WRITTEN)
    shared = {"mps": {"resources": []}}
    assert json.dumps(whole(WRITTEN, shared)) == json.dumps({**WRITTEN, "sharing": shared})


def test_a_list_replaces_and_the_default_stays_as_it_is() -> None:
    before = json.dumps(DEFAULT)
    both = whole({"flags": {"plugin": {"deviceListStrategy": ["cdi-cri", "envvar"]}}})
    assert both["flags"]["plugin"]["deviceListStrategy"] == ["cdi-cri", "envvar"]
    assert json.dumps(DEFAULT) == before


@pytest.mark.parametrize("wrong", ["v1", ["version"], 7, {"flags": "x"}, {1: 2}])
def test_what_is_no_configuration_is_left_for_who_refuses_it(wrong: Any) -> None:
    whole(wrong, {"mps": {}})
    assert all_whole(wrong) is wrong or isinstance(wrong, dict)


def test_the_plan_the_parser_and_the_role_read_the_same() -> None:
    given = {"gpuNode": METRICS}
    values = {"device_plugin_config": given, "device_plugin_configs": {"few": given}}
    asked = modules.options("device_plugin", values)
    assert (asked["config"], asked["configs"]) == (whole(given), {"few": whole(given)})
    assert FilterModule().filters()["plugin_config"](given, {}) == whole(given)
    assert configurations(values) == []


def test_the_default_that_the_role_shows_is_this_one() -> None:
    text = (REPOSITORY / "roles/device_plugin/defaults/main.yml").read_text()
    assert yaml.safe_load(text)["device_plugin_config"] == DEFAULT
