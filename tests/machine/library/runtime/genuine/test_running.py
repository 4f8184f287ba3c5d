# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a restart ends: genuine containers of genuine dockerd and containerd, and what the module says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.runtime.daemons import running
from tests.fakes.runtime.genuine_runtimes import (
    DAEMON,
    GenuineRuntimes,
    planned,
    runs_containers,
    with_cdi,
)
from tests.support.waiting import eventually

pytestmark = [*runs_containers]


@with_cdi
@pytest.mark.parametrize("live", [False, True])
def test_what_a_restart_of_docker_ends(
    machine: Callable[..., GenuineRuntimes], tmp_path: Path, suite: str, live: bool
) -> None:
    settings = {"live-restore": live, "features": {"cdi": False}}
    node = machine(suite, {DAEMON: json.dumps(settings)})
    node.install_docker()
    logs = tmp_path / "logs"
    logs.mkdir()
    with running(node, logs) as daemons:
        idle = planned(node, name="docker")
        assert (idle.restart_required, idle.blocked_by) == (("docker.service",), ())
        daemons.start("train")
        eventually(daemons.alive)  # runc has become the container's program
        plan = planned(node, name="docker")
        if live:
            assert (plan.restart_required, plan.blocked_by) == (("docker.service",), ())
        else:
            assert (plan.restart_required, plan.blocked_by) == ((), ("train",))
            assert "would end train" in plan.warnings[0]
        # The file says otherwise; what counts is the daemon that runs.
        node.put(DAEMON, json.dumps({**settings, "live-restore": not live}))
        assert planned(node, name="docker").blocked_by == plan.blocked_by
        assert daemons.alive()
        assert daemons.alive("dockerd") is live


@with_cdi
def test_containers_of_containerd_go_on(
    machine: Callable[..., GenuineRuntimes], tmp_path: Path, suite: str
) -> None:
    node = machine(suite, {DAEMON: '{"live-restore": true}'})
    node.install_docker()
    logs = tmp_path / "logs"
    logs.mkdir()
    with running(node, logs) as daemons:
        daemons.start("train")
        eventually(daemons.alive)  # runc has become the container's program
        assert daemons.alive("containerd")
