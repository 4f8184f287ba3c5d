# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A device plugin whose strategy no runtime of the node carries out is not ready, whatever it advertises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import runtimes
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import CONFIG as WRITTEN
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import CONFIGS, HEADER

from tests.fakes.library.nodes_to_validate import failures, node
from tests.fakes.library.runtime_host import RuntimeHost

ENVVAR: dict[str, Any] = {"flags": {"plugin": {"deviceListStrategy": ["envvar"]}}}
DAEMON = "/etc/docker/daemon.json"


def host(config: Any = ENVVAR, daemon: str = "{}") -> RuntimeHost:
    text = config if isinstance(config, str) else f"{HEADER}{json.dumps(config)}\n"
    return RuntimeHost({WRITTEN: text, DAEMON: daemon}, docker="28.2.2")


def test_a_node_without_the_handler_is_not_ready() -> None:
    found = runtimes.unreached(host())  # type: ignore[arg-type]
    said = failures(node(unreached=found))
    assert set(said) == {"device plugin"}
    text = said["device plugin"]
    assert text.startswith("device_plugin_config: flags.plugin.deviceListStrategy: ['envvar'] is ")
    assert "docker of this node has no handler of it" in text
    assert " -> set deviceListStrategy: [cdi-annotations, cdi-cri]" in text


def test_of_several_configurations_the_one_in_force_is_named() -> None:
    one = host()
    one.links[WRITTEN] = f"{CONFIGS}/few"
    found = runtimes.unreached(one)  # type: ignore[arg-type]
    assert str(found).startswith("device_plugin_configs.few: flags.plugin.deviceListStrategy: ")
    one.links[WRITTEN] = f"{CONFIGS}/default"
    assert str(runtimes.unreached(one)).startswith("device_plugin_config: ")  # type: ignore[arg-type]


def test_a_kubelet_that_drops_the_strategy_is_not_ready() -> None:
    one = host({"flags": {"plugin": {"deviceListStrategy": ["cdi-cri"]}}})
    one.commands["kubelet", "--version"] = "Kubernetes v1.26.11\n"
    said = failures(node(unreached=runtimes.unreached(one)))  # type: ignore[arg-type]
    assert "kubelet 1.26.11 drops the answer of cdi-cri" in said["device plugin"]
    assert " -> set deviceListStrategy: [cdi-annotations]" in said["device plugin"]


@pytest.mark.parametrize(
    "one",
    [
        host(daemon='{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}'),
        host({"flags": {"plugin": {"deviceListStrategy": ["cdi-cri"]}}}),
        host({**ENVVAR, "gpuNode": {"allocation": "dra"}}),
        host("flags: {plugin: {deviceListStrategy: envvar}}"),  # not written by us
        host(""),
        RuntimeHost({WRITTEN: json.dumps(ENVVAR)}),
    ],
)
def test_all_others_are(one: RuntimeHost) -> None:
    assert runtimes.unreached(one) is None  # type: ignore[arg-type]
    assert failures(node(unreached=None)) == {}


def test_a_node_without_the_device_plugin_is_asked_nothing() -> None:
    one = RuntimeHost({}, docker="28.2.2")
    assert runtimes.unreached(one) is None  # type: ignore[arg-type]
    assert one.ran == []
