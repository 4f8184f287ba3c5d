# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Labels that come and go with the device plugin, on a machine of dictionaries."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import LABELS_UNIT
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    CONFIG,
    CONFIGS,
    SETTINGS,
    UNITS,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.agent_host import LABELS, PREFIX, AgentHost, parameters, run


def test_labels_and_what_they_choose_from_come_and_go() -> None:
    machine = AgentHost()
    params = parameters("r1", 0)
    run(machine, {**params, "labels": LABELS})
    assert machine.labels["GPU_LABELS_OUTPUT"] == "api"
    chosen = {**params, "labels": {**LABELS, "output": "file"}, "configs": {"many": {"more": 1}}}
    found = run(machine, chosen)
    assert machine.links[CONFIG] == f"{CONFIGS}/default"
    assert "more" in machine.files[f"{CONFIGS}/many"]
    assert machine.labels["CONFIG_FILE_SRCDIR"] == CONFIGS
    removed = (f"{PREFIX}/bin/gpu-plugin", "labels", "--config", CONFIG, "--remove")
    assert machine.ran.count(removed) == 1  # the output is another
    machine.links[CONFIG] = f"{CONFIGS}/many"  # as the node's label says
    machine.start()  # which the daemon follows by itself
    assert found.plan(found.observe()).steps == ()

    run(machine, {**params, "labels": LABELS})
    assert CONFIG not in machine.links
    assert machine.listdir(CONFIGS) == []
    assert "CONFIG_FILE_SRCDIR" not in machine.labels

    machine.removal = Completed(1, "", "the API does not answer")
    off = run(machine, {**params, "labels": {**LABELS, "output": "off"}})
    state = off.observe()
    assert off.result(state, off.plan(state))["labels_left"] == "the API does not answer"
    assert not {SETTINGS, f"{UNITS}/{LABELS_UNIT}"} & set(machine.files)
    assert not machine.labels


def test_nothing_is_kept_to_put_back_where_the_daemon_is_not_restarted() -> None:
    machine = AgentHost()
    for extra in ({}, {"a": "b"}):
        run(machine, {**parameters("r1", 0), "labels": {**LABELS, "extra": extra}})
        assert f"{PREFIX}/rollback.json" not in machine.files


def test_a_release_that_does_not_serve_leaves_the_labels_alone() -> None:
    machine = AgentHost("r2")
    run(machine, {**parameters("r1", 0), "labels": LABELS})
    before = machine.files[f"{UNITS}/{LABELS_UNIT}"], machine.labels
    other = {**LABELS, "extra": {"a": "b"}}
    with pytest.raises(NodeError, match="release r1 with its configuration was restored"):
        run(machine, {**parameters("r2", 0), "labels": other})
    assert (machine.files[f"{UNITS}/{LABELS_UNIT}"], machine.labels) == before
    machine.bad = ()
    run(machine, {**parameters("r2", 0), "labels": other})
    assert machine.files[f"{UNITS}/{LABELS_UNIT}"] == "labels of r2"
    assert machine.labels["GPU_LABELS_EXTRA"] == "a=b"


def test_teardown_takes_labels_and_configurations_with_it() -> None:
    machine = AgentHost()
    params = parameters("r1", 0)
    run(machine, {**params, "labels": LABELS, "configs": {"many": {}}})
    for state in ("stopped", "absent"):
        found = DevicePluginCapability(machine, {**params, "state": state}, check_mode=False)
        for step in found.plan(found.observe()).steps:
            found.apply(step)
        assert not machine.labels
    assert [one for one in (*machine.files, *machine.links) if one.startswith("/etc")] == []
