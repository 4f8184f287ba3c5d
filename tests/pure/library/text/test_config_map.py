# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A ConfigMap, or its data, in the place of the configuration in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._base.text.config_map import unwrap_hint
from ansible_collections.gpu.node.plugins.module_utils._mig import config as mig
from gpu_cluster.hami import nodes, settings
from gpu_plugin.config.configuration import parse
from gpu_plugin.config.strict_yaml import ConfigError


def config_map(**data: str) -> dict[str, Any]:
    metadata = {"name": "gpus", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (config_map(any="version: v1"), "it is a ConfigMap: give the text below data.any"),
        (config_map(a="", b=""), "it is a ConfigMap: give the text below data, of a or b"),
        ({"kind": "ConfigMap"}, "it is a ConfigMap: give the text below data"),
        ({"config.yaml": "x"}, "it is the data of a ConfigMap: give the text of config.yaml"),
        ({"version": "v1"}, ""),
        ({"config.yaml": {"a": 1}}, ""),
        ({}, ""),
        ([], ""),
    ],
)
def test_what_wraps_a_configuration_is_named(data: Any, hint: str) -> None:
    assert unwrap_hint(data) == hint


@pytest.mark.parametrize("data", [config_map(any="version: v1"), {"config.yaml": "version: v1"}])
def test_each_reader_of_a_configuration_says_what_to_give(data: Any) -> None:
    text = json.dumps(data)
    for read in (parse, settings.parse, nodes.parse):
        with pytest.raises(ConfigError, match="give the text"):
            read(text, "file")
    with pytest.raises(InputError, match="give the text"):
        mig._layouts(data)


def test_a_config_map_in_yaml_is_known_in_the_place_of_json() -> None:
    text = "kind: ConfigMap\ndata:\n  config.json: '{}'\n"
    with pytest.raises(ConfigError, match=r"give the text below data\.config\.json"):
        nodes.parse(text, "config.json")
