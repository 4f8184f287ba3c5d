# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The unit of MPS daemons in the plan for the device plugin."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.services.mps import (
    FOLDER,
    Daemon,
    daemon,
    devices,
    file,
    left,
    state_file,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import (
    UNIT,
    plan,
    serving,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    DesiredPlugin,
    Service,
)

from tests.fakes.library.agent_nodes import (
    MPS_UNIT,
    PREFIX,
    STATUS,
    WANTED,
    actions,
    seen,
    with_files,
)
from tests.fakes.library.agent_nodes import daemon as service

GPU = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"


def wanted(state: str) -> DesiredPlugin:
    return dataclasses.replace(WANTED, state=state, digest="")


def test_an_end_of_the_plugin_is_one_of_the_daemons() -> None:
    idle = seen(mps=(Daemon(GPU),))
    assert actions(plan(idle, wanted("stopped"), PREFIX)) == ["stop", "stop_mps"]
    assert actions(plan(idle, wanted("absent"), PREFIX)) == [
        f"remove_service {UNIT}",
        "stop_mps",
        "remove config.yaml",
        f"remove {MPS_UNIT}",
        "clear gpu-node",
    ]
    assert actions(plan(seen(), wanted("stopped"), PREFIX)) == ["stop"]


def test_what_a_cut_off_stop_left_is_stopped() -> None:
    off = seen(mps=(Daemon(GPU),), **service(ActiveState="inactive", UnitFileState="disabled"))
    found = plan(off, wanted("stopped"), PREFIX)
    assert actions(found) == ["stop_mps"]
    assert GPU in found.steps[0].summary


@pytest.mark.parametrize("state", ["stopped", "absent"])
def test_clients_are_ended_only_where_that_was_said(state: str) -> None:
    with pytest.raises(NodeError, match=rf"clients of {GPU} \(2\).*onBusy: terminate"):
        plan(seen(mps=(Daemon(GPU, 2),)), wanted(state), PREFIX)
    assert "stop_mps" in actions(plan(seen(mps=(Daemon(GPU, 2, True),)), wanted(state), PREFIX))


def test_a_daemon_is_read_from_its_files() -> None:
    text = json.dumps({"version": 1, "on_busy": "terminate", "root": "/run/x"})
    assert state_file(GPU, text) == f"/run/x/{GPU}.json"
    assert daemon(GPU, text, json.dumps({"clients": 3})) == Daemon(GPU, 3, True)
    for damaged in (None, "", "{", "[]", json.dumps({"root": 7, "on_busy": ["terminate"]})):
        assert state_file(GPU, damaged) == f"{FOLDER}/{GPU}.json"
        assert daemon(GPU, damaged, None) == daemon(GPU, damaged, "{") == Daemon(GPU)


def test_a_daemon_that_is_no_longer_wanted_is_known_by_its_manager() -> None:
    manager = json.dumps({"devices": {GPU: "/run/x", "../../etc/x": "/run", "b": 7}})
    assert left(manager) == {GPU: "/run/x"}
    for damaged in (None, "", "[]", '{"devices": []}'):
        assert left(damaged) == {}
    assert state_file(GPU, None, "/run/x") == f"/run/x/{GPU}.json"
    state = {"clients": 2, "settings": {"on_busy": "terminate"}}
    assert daemon(GPU, None, json.dumps(state)) == Daemon(GPU, 2, True)
    assert daemon(GPU, None, json.dumps({"clients": 2, "settings": []})) == Daemon(GPU, 2)


def manager(release: str) -> Service:
    return Service({"ActiveState": "active"}, {"GPU_NODE_RELEASE": release})


def test_an_upgrade_restarts_the_manager_and_waits_for_no_client() -> None:
    older = seen(manager=manager("old"), mps=(Daemon(GPU, 2),))
    found = plan(older, WANTED, PREFIX)
    assert [one.summary for one in found.steps] == [
        f"restart {MPS_UNIT}: it runs from another release"
    ]
    assert plan(seen(manager=manager("new")), WANTED, PREFIX).steps == ()
    other = seen(manager=manager("new"), **with_files(mps_unit="older"))
    assert actions(plan(other, WANTED, PREFIX)) == [f"file {MPS_UNIT}", "restart"]


def test_devices_are_those_with_settings() -> None:
    assert file(GPU) == f"{FOLDER}/{GPU}.settings.json"
    names = ["a.json", "a.settings.json", "a.lock", "a", "c.settings.json"]
    assert devices(names) == ["a", "c"]


def test_a_deployment_waits_for_daemons_but_not_for_clients() -> None:
    starting = {"problem": "its MPS control daemon is starting", "waits_for_clients": False}
    busy = {
        "problem": "its limits change when its last client has ended",
        "waits_for_clients": True,
    }
    well = {"problem": None, "waits_for_clients": False}
    late = seen(status={**STATUS, "mps": {GPU: starting}})
    assert serving(late) == f"MPS is not ready: {GPU}: its MPS control daemon is starting"
    assert actions(plan(late, WANTED, PREFIX)) == ["wait"]
    for one in (busy, well):
        assert serving(seen(status={**STATUS, "mps": {GPU: one}})) == ""
