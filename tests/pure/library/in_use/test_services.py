# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Services that make way for a change: which may be named, and where they stop and start in a plan."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan, Step
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine.services import around
from ansible_collections.gpu.node.plugins.module_utils._node.users.services import (
    Stopped,
    dump,
    load,
    parse,
)

TAKES = Step("install", "install", needs=("idle_gpu",))
HOLD = Step("hold", "hold")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nvsm.timer", "the name of a service"),
        ("../x.service", "the name of a service"),
        ("a b.service", "the name of a service"),
        ("-a.service", "the name of a service"),
        ("gpu-device-plugin", "gpu.node stops and starts its own"),
        ("gpu-mps.service", "gpu.node stops and starts its own"),
        ("nvidia-persistenced", "where the kernel modules are reloaded"),
        ("nvidia-fabricmanager.service", "where the kernel modules are reloaded"),
        ("kubelet", "ends no container; drain the node"),
        ("k3s-agent.service", "ends no container"),
        ("containerd.service", "ends no container"),
        ("docker", "ends no container"),
        ("sshd", "can't be reached"),
        ("systemd-udevd.service", "can't be reached"),
    ],
)
def test_service_that_may_not_be_stopped_is_refused(name: str, words: str) -> None:
    with pytest.raises(InputError, match="stop_services") as found:
        parse([name])
    assert words in str(found.value)


def test_services_are_named_as_for_systemctl() -> None:
    named = parse(["nvsm", "dcgm-exporter.service", "nvsm.service", "job@1.service"])
    assert named == ("nvsm.service", "dcgm-exporter.service", "job@1.service")


@pytest.mark.parametrize(
    ("plan", "running", "left", "actions"),
    [
        (Plan((HOLD,)), ["a"], [], ["hold"]),
        (Plan((HOLD,)), ["a"], ["b"], ["hold", "start_services"]),
        (Plan(()), [], ["b"], ["start_services"]),
        (Plan((HOLD, TAKES)), [], [], ["hold", "install"]),
        (
            Plan((HOLD, TAKES, HOLD)),
            ["a"],
            [],
            ["hold", "stop_services", "install", "hold", "start_services"],
        ),
        (Plan((TAKES,), more=True), ["a"], [], ["stop_services", "install"]),
        (Plan((TAKES,), more=True), [], ["a"], ["install"]),
    ],
)
def test_services_stop_before_what_takes_gpus_and_start_at_the_end(
    plan: Plan, running: list[str], left: list[str], actions: list[str]
) -> None:
    assert [step.action for step in around(plan, running, left).steps] == actions


def test_what_was_stopped_last_starts_first() -> None:
    steps = around(Plan((TAKES,)), ["c"], ["a", "b"]).steps
    assert steps[0].params["units"] == ["c"]
    assert steps[-1].params["units"] == ["c", "b", "a"]


def test_record_is_read_as_it_was_written() -> None:
    stopped = Stopped(("a.service", "b.service"), "boot")
    assert load(dump(stopped)) == stopped
    assert load(None) == Stopped()
    for text in ("[", "[]", "{}", '{"units": 7, "boot": ""}'):
        with pytest.raises(NodeError, match=r"stopped-services\.json is damaged"):
            load(text)
