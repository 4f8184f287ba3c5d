# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A specification that is written to another path than before."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot as cdi_boot
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.gpu_values import gpu
from tests.fakes.packages.driver_fakes import CDI_SPEC as PATH
from tests.fakes.packages.driver_fakes import FakeNvml, HostWithDriver


@pytest.fixture
def booting(monkeypatch: pytest.MonkeyPatch) -> HostWithDriver:
    """Return a machine with what regenerates the specification at boot."""
    fake = FakeNvml(gpu(0), gpu(1))
    monkeypatch.setattr(cdi, "open_nvml", fake.opened)
    host = HostWithDriver()
    host.files[PROGRAM] = ""
    states = {"UnitFileState": "enabled", "ActiveState": "active"}

    def show(words: tuple[str, ...]) -> Completed:
        on = ("systemctl", "enable", cdi_boot.PATH_UNIT) in host.ran
        lines = [f"{key}={value}\n" for key, value in states.items() if on]
        return Completed(0, "".join(lines), "")

    host.commands["systemctl",] = ""
    host.commands["systemctl", "show"] = show
    return host


def converge(host: HostWithDriver, **params: Any) -> list[str]:
    """Bring the machine there; return the steps in words."""
    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    one = cdi.CdiCapability(host, {**defaults, **params}, check_mode=False)
    steps = one.plan(one.observe()).steps
    for step in steps:
        one.apply(step)
    return [step.summary for step in steps]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_the_specification_at_an_earlier_path_goes(booting: HostWithDriver, state: str) -> None:
    host = booting
    converge(host, path="/etc/cdi/other.json", boot=True)
    assert "/etc/cdi/other.json" in host.files
    theirs = "/etc/cdi/theirs.json"
    host.files[theirs] = '{"cdiVersion": "0.6.0", "kind": "vendor.com/nic", "devices": []}'
    steps = converge(host, path=PATH, state=state, boot=True)
    assert "remove /etc/cdi/other.json, where the specification was before" in steps
    assert "/etc/cdi/other.json" not in host.files
    assert (PATH in host.files) is (state == "present")
    assert theirs in host.files
    assert converge(host, path=PATH, state=state, boot=True) == []


def test_what_somebody_else_wrote_at_an_earlier_path_stays(booting: HostWithDriver) -> None:
    host = booting
    converge(host, path="/etc/cdi/other.json", boot=True)
    host.files["/etc/cdi/other.json"] = '{"cdiVersion": "0.6.0", "kind": "vendor.com/nic"}'
    converge(host, path=PATH, boot=True)
    assert "/etc/cdi/other.json" in host.files
    # Another spelling of the folder is the same file.
    converge(host, path="/run/cdi/n.json", boot=True)
    assert not [
        one for one in converge(host, path="/var/run/cdi/n.json", boot=True) if "before" in one
    ]
