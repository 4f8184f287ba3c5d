# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu-plugin is where a shell looks for it, and takes nobody's place there."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.release import COMMAND

from tests.fakes.library.agent_host import PREFIX, AgentHost, deploy, parameters, run

PROGRAM = f"{PREFIX}/bin/gpu-plugin"
ABSENT = {**parameters("", 0), "state": "absent"}


def test_the_command_is_found_and_goes_with_the_daemon() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    assert machine.links[COMMAND] == PROGRAM
    deploy(machine, "r2")
    assert machine.links[COMMAND] == PROGRAM
    run(machine, ABSENT)
    assert COMMAND not in machine.links
    assert not machine.exists(PREFIX)


def test_what_somebody_else_has_there_stays() -> None:
    machine = AgentHost()
    machine.files[COMMAND] = "#!/bin/sh\n"
    deploy(machine, "r1")
    run(machine, ABSENT)
    assert machine.files[COMMAND] == "#!/bin/sh\n"
    machine.files.pop(COMMAND)
    machine.links[COMMAND] = "/srv/gpu-plugin"
    deploy(machine, "r1")
    run(machine, ABSENT)
    assert machine.links[COMMAND] == "/srv/gpu-plugin"


def test_what_somebody_else_has_in_the_prefix_stays_and_is_named() -> None:
    machine = AgentHost()
    theirs = f"{PREFIX}/tools/readme"
    machine.files[theirs] = "how to"
    deploy(machine, "r1")
    machine.files[f"{PREFIX}/.rollback.json.a1b2c3d4"] = "{"  # of a killed write
    found = DevicePluginCapability(t.cast("t.Any", machine), ABSENT, check_mode=False)
    plan = found.plan(found.observe())
    named = f"left alone, since the collection has not made it: {PREFIX}/tools"
    assert plan.warnings == (f"device_plugin: {named}",)
    assert plan.steps[-1].summary == f"remove what the collection has made in {PREFIX}"
    run(machine, ABSENT)
    assert [path for path in machine.files if path.startswith(f"{PREFIX}/")] == [theirs]
    assert machine.listdir(PREFIX) == ["tools"]


def test_a_folder_that_can_not_be_written_keeps_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = AgentHost()
    link = machine.symlink

    def refuse(target: str, path: str) -> None:
        if path == COMMAND:
            raise OSError(30, "Read-only file system")
        link(target, path)

    monkeypatch.setattr(machine, "symlink", t.cast("t.Any", refuse))
    monkeypatch.setattr(machine, "writable", lambda _path: False)
    deploy(machine, "r1")
    assert machine.current == "r1"
    assert COMMAND not in machine.links


def test_links_that_are_gone_come_back_and_nothing_restarts() -> None:
    machine = AgentHost()
    deploy(machine, "r1")
    pid = machine.pid
    for path in (COMMAND, f"{PREFIX}/bin"):
        target = machine.links.pop(path)
        deploy(machine, "r1")
        assert machine.links[path] == target
    assert machine.pid == pid
