# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where a reload is enough, and where it is not."""

from __future__ import annotations

import typing as t

import pytest

from tests.fakes.clock import Clock
from tests.fakes.library.runtime_host import CONFIG, DAEMON, RuntimeHost, capability

ON = '{"features": {"cdi": true}}'


def required(host: RuntimeHost, **params: t.Any) -> t.Tuple[t.List[str], t.List[str]]:
    """Carry a plan out and return what has to start again, and what has to reload."""
    one = capability(host, **params)
    for step in one.plan(one.observe()).steps:
        one.apply(step)
    state = one.observe()
    plan = one.plan(state)
    assert plan.steps == ()
    return list(plan.restart_required), one.result(state, plan)["reload_required"]


def machine(text: str, docker: str = "26.1.5") -> RuntimeHost:
    host = RuntimeHost({DAEMON: text}, docker=docker)
    host.install_toolkit()
    return host


@pytest.mark.parametrize("mode", ["runtime_class", "default_runtime"])
def test_docker_takes_over_a_handler(mode: str) -> None:
    host = machine(ON)
    assert required(host, name="docker", mode=mode) == ([], ["docker.service"])


def test_check_mode_announces_the_reload() -> None:
    one = capability(machine(ON), name="docker", mode="runtime_class")
    state = one.observe()
    plan = one.plan(state)
    assert plan.steps[0].needs == ("reload:docker.service",)
    assert plan.restart_required == ()
    assert one.result(state, plan)["reload_required"] == ["docker.service"]


def test_cdi_takes_a_restart_and_the_handler_beside_it_too() -> None:
    assert required(machine("{}"), name="docker", mode="cdi") == (["docker.service"], [])
    assert required(machine("{}"), name="docker", mode="runtime_class") == (
        ["docker.service"],
        [],
    )


def test_key_that_goes_takes_a_restart(clock: Clock) -> None:
    host = machine(ON)
    required(host, name="docker", mode="runtime_class")
    host.started(clock.now)
    clock.now += 1
    assert required(host, name="docker", mode="cdi") == (["docker.service"], [])


def test_reload_that_was_missed_is_asked_for_until_it_was_done(clock: Clock) -> None:
    host = machine(ON)
    required(host, name="docker", mode="runtime_class")
    again = required(host, name="docker", mode="runtime_class")
    assert again == ([], ["docker.service"])
    host.started(1.0, reloaded=clock.now + 60)
    assert required(host, name="docker", mode="runtime_class") == ([], [])


def test_reload_does_not_stand_for_a_restart(clock: Clock) -> None:
    host = machine("{}")
    required(host, name="docker", mode="cdi")
    host.started(1.0, reloaded=clock.now + 60)
    assert required(host, name="docker", mode="cdi") == (["docker.service"], [])
    assert required(host, name="docker", mode="runtime_class") == (["docker.service"], [])
    host.started(clock.now + 120)
    assert required(host, name="docker", mode="runtime_class") == ([], [])


def test_containerd_always_starts_again() -> None:
    host = RuntimeHost({CONFIG: "version = 2\n"}, containerd="1.7.24")
    host.install_toolkit()
    assert required(host, mode="runtime_class") == (["containerd.service"], [])
