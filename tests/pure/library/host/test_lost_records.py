# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A record that is gone is noticed by the files that prove that it was there."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan, Step
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine import modules
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.in_force import (
    MODPROBE_FILE,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.own_files import (
    RECORDS,
    OwnFiles,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.run import with_own_files
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.exporter import UNIT_FILE
from ansible_collections.gpu.node.plugins.module_utils._software.toolkit.capability import DROP_IN

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import H100, node
from tests.fakes.library.runtime_host import CRIO, RuntimeHost
from tests.fakes.packages.driver_runs import capability

FOLDER = "/var/lib/gpu-node"
RECORD = f"{FOLDER}/nvidia_driver.json"
UNIT = "/etc/systemd/system/gpu-device-nodes.service"


def told(module: str, host: Any, **values: Any) -> list[str]:
    _refused, options = modules.check(host, module, values)
    one = with_own_files(modules.MODULES[module].make(host, options))
    return [text for text in one.plan(one.observe()).warnings if "is not there" in text]


@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize("path", [MODPROBE_FILE, UNIT])
def test_the_drivers_record(path: str, state: str) -> None:
    host = node(H100)
    host.commands |= dict.fromkeys(((word,) for word in ("dpkg-query", "dpkg", "apt-cache")), "")
    host.files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX Kernel Module  550.1  x"
    host.files["/usr/lib64/libnvidia-ml.so.550.1"] = ""

    def warned() -> list[str]:
        one = with_own_files(capability(host, state=state, source="preinstalled"))
        return [text for text in one.plan(one.observe()).warnings if RECORD in text]

    assert warned() == []
    if path == MODPROBE_FILE:
        host.files[path] = "options nvidia NVreg_A=1\n"  # somebody else's
        assert warned() == []
    host.files[path] = "# Written by gpu.node.nvidia_driver.\n"
    (text,) = warned()
    assert text.startswith(f"{RECORD} is not there, and {path} shows that an earlier run ")
    assert "stays when it is removed. Next step: restore the file from a backup" in text
    assert "adopt" in text
    host.files[RECORD] = '{"device_nodes": true, "modprobe": true}'
    assert warned() == []


@pytest.mark.parametrize("state", ["present", "absent"])
def test_the_record_of_runtimes(state: str) -> None:
    host = RuntimeHost({CRIO: "[crio.runtime]\n"}, crio="1.30.0")
    values = {"container_runtime_name": "cri-o", "container_runtime_state": state}
    (text,) = told("container_runtime", host, **values)
    assert text.startswith(f"{FOLDER}/container_runtime.json is not there, and {CRIO} shows")
    host.files = {}
    assert told("container_runtime", host, **values) == []


def test_the_record_of_the_toolkit_and_of_dcgm() -> None:
    for module, path in (("container_toolkit", DROP_IN), ("dcgm", UNIT_FILE)):
        host = node(H100)
        host.commands |= dict.fromkeys(((word,) for word in ("dpkg-query", "dpkg")), "")
        host.files[path] = "# Written by gpu.node\n"
        (text,) = told(module, host, **{f"{module}_state": "absent"})
        assert text.startswith(f"{FOLDER}/{module}.json is not there, and {path} shows")


class Kept:
    """Writes its record in its first step, and removes it in its last."""

    name = "kept"
    record = f"{FOLDER}/kept.json"

    def __init__(self, host: Any) -> None:
        self.host = host

    def observe(self) -> None:
        return None

    def plan(self, _state: None) -> Plan:
        return Plan()

    def own(self, _state: None) -> OwnFiles:
        return OwnFiles(self.host, record=self.record)

    def result(self, _state: None, _plan: Plan) -> dict[str, Any]:
        return {}

    def apply(self, step: Step) -> None:
        if step.action == "add":
            self.host.write(self.record, "{}")
        if step.action == "remove":
            self.host.remove(self.record)
        if step.params.get("fails"):
            raise NodeError("the disk is gone")


def test_a_record_is_missed_from_the_step_on_that_wrote_it_until_the_one_that_removes_it() -> None:
    host = FakeHost()
    one = with_own_files(Kept(host))

    def warned() -> bool:
        return any("is not there" in text for text in one.plan(None).warnings)

    assert not warned()
    with pytest.raises(NodeError):
        one.apply(Step("add", "add a package", {"fails": True}))
    assert host.files[RECORDS] == f"{Kept.record}\n"
    del host.files[Kept.record]
    assert warned()
    one.apply(Step("look", "do something else"))
    assert warned()
    one.apply(Step("add", "add a package"))
    assert not warned()
    one.apply(Step("remove", "remove the package"))
    assert not warned()
    assert RECORDS not in host.files


def test_a_lost_record_that_is_begun_again_is_missed_until_its_component_goes() -> None:
    host = FakeHost()
    component = with_own_files(Kept(host))
    assert component.plan(None).warnings == ()
    component.apply(Step("add", "add a package"))
    assert component.plan(None).warnings == ()
    del host.files[Kept.record]
    component.apply(Step("add", "add another package"))
    (warning,) = component.plan(None).warnings
    assert warning.startswith(
        f"{Kept.record} was lost and begun again: what earlier runs have added"
    )
    assert f"take the line again:{Kept.record} out of {RECORDS}" in warning
    component.apply(Step("add", "add a third package"))
    assert component.plan(None).warnings == (warning,)
    component.apply(Step("remove", "remove the packages"))
    assert component.plan(None).warnings == ()
    assert RECORDS not in host.files


def test_records_about_trust_are_given_back_to_root_by_each_look_at_the_driver() -> None:
    found = capability(node(H100), state="present", source="preinstalled")
    modes = found.own(found.observe()).modes
    assert (modes[f"{FOLDER}/quarantine.json"], modes[f"{FOLDER}/repair.json"]) == (0o644, 0o600)
