# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""cloud-init at work, done, failed, and not there; what it says is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._generated.gpu_info import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._node.gpu_info.capability import (
    GpuInfoCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._node.machine import cloud_init

from tests.fakes.library.fakes import FakeHost

GPU = "/sys/bus/pci/devices/0000:18:00.0"
STATUS = ("cloud-init", "status", "--long")
# cloud-init 25.1.4 on Debian 13, with a datasource NoCloud, while its last stage ran.
RUNNING = """\
status: running
extended_status: degraded running
boot_status_code: enabled-by-generator
last_update: Thu, 01 Jan 1970 10:09:20 +0000
detail: DataSourceNoCloud [seed=/var/lib/cloud/seed/nocloud]
errors: []
recoverable_errors:
WARNING:
\t- Applying SSH credentials failed!
"""
# The same without a datasource, and 22.4.2 of Debian 12 where it was installed after the boot.
DISABLED = "status: disabled\nextended_status: disabled\nboot_status_code: disabled-by-generator\n"
NOT_RUN = (
    "status: not run\nboot_status_code: unknown\ndetail:\nSystemd generator may not have run yet.\n"
)
# What it left in /run where a command of the user data had failed.
RESULT = """\
{
 "v1": {
  "datasource": "DataSourceNoCloud [seed=/var/lib/cloud/seed/nocloud]",
  "errors": [
   "('scripts-user', RuntimeError('Runparts: 1 failures (runcmd) in 1 attempted commands'))"
  ]
 }
}
"""


class Clock:
    """A clock that only sleeping moves, and something that happens at a time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.then: dict[float, Callable[[], None]] = {}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for when in [one for one in self.then if one <= self.now]:
            self.then.pop(when)()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(cloud_init, "time", clock)
    return clock


def node(said: str = "", rc: int = 0) -> FakeHost:
    """Return a node with a GPU, and with cloud-init where that says something."""
    files = {f"{GPU}/vendor": "0x10de\n", f"{GPU}/device": "0x2330\n", f"{GPU}/class": "0x030200\n"}
    return FakeHost(files, {STATUS: Completed(rc, said, "")} if said else {})


def look(host: FakeHost, timeout: int = 600) -> tuple[str, ...]:
    """Look at the node as bring-up does first, and return the warnings."""
    params: dict[str, Any] = {name: one["default"] for name, one in SPEC["argument_spec"].items()}
    one = GpuInfoCapability(host, {**params, "cloud_init_timeout": timeout})
    return one.plan(one.observe()).warnings


def test_cloud_init_that_is_at_work_is_waited_for(clock: Clock) -> None:
    host = node(RUNNING, rc=2)
    clock.then[30.0] = lambda: host.files.update({cloud_init.RESULT: '{"v1": {"errors": []}}'})
    assert look(host) == ()
    assert clock.now == 30.0


def test_cloud_init_that_takes_too_long_is_named_with_the_variable(clock: Clock) -> None:
    with pytest.raises(NodeError) as caught:
        look(node(RUNNING, rc=2), timeout=20)
    assert clock.now == 20.0
    message = str(caught.value)
    assert "cloud-init is still at work after 20 s" in message
    assert "DataSourceNoCloud" in message
    assert "gpu_nodes_cloud_init_timeout" in message


@pytest.mark.parametrize(
    "said", ["", DISABLED, NOT_RUN, "status: error\n", "status: done\n", "usage: cloud-init\n"]
)
def test_nothing_is_waited_for_where_cloud_init_is_not_at_work(clock: Clock, said: str) -> None:
    assert look(node(said, rc=1)) == ()
    assert clock.now == 0


def test_cloud_init_is_waited_for_that_the_boot_is_yet_to_start(clock: Clock) -> None:
    host = node(NOT_RUN)
    host.commands["systemctl", "is-system-running"] = Completed(1, "starting\n", "")
    clock.then[4.0] = lambda: host.files.update({cloud_init.RESULT: "{}"})
    assert look(host) == ()
    assert clock.now == 4.0


@pytest.mark.parametrize("unit", ["cloud-final", "cloud-init-main", "cloud-config", "cloud-init"])
def test_run_that_cloud_init_has_started_does_not_wait_for_itself(clock: Clock, unit: str) -> None:
    host = node(RUNNING)
    host.files["/proc/self/cgroup"] = f"0::/system.slice/{unit}.service\n"
    assert look(host) == ()
    assert clock.now == 0


def test_errors_of_cloud_init_are_a_warning_and_no_failure() -> None:
    host = node(RUNNING)
    host.files[cloud_init.RESULT] = RESULT
    (warning,) = look(host)
    assert "Runparts: 1 failures (runcmd)" in warning
    assert STATUS not in host.ran  # a node that has long been up is not even asked
    for damaged in ("", "[]", '{"v1": []}', '{"v1": {"errors": 7}}', "{"):
        host.files[cloud_init.RESULT] = damaged
        assert look(host) == ()


def test_node_without_gpu_and_a_run_that_does_not_want_it_do_not_wait(clock: Clock) -> None:
    host = node(RUNNING)
    assert look(host, timeout=0) == ()
    del host.files[f"{GPU}/vendor"]
    assert look(host) == ()
    assert clock.now == 0


def test_cloud_init_timeout_cannot_be_negative() -> None:
    with pytest.raises(InputError, match="cloud_init_timeout: -1"):
        look(node(), timeout=-1)


def test_state_is_read_from_its_own_line() -> None:
    assert look(node("status: error\ndetail:\nsaid status: running\n")) == ()
