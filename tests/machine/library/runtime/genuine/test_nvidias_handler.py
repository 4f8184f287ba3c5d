# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a handler of NVIDIA's is there, as genuine runtimes show it, with CDI and before it."""

from __future__ import annotations

import json
from collections.abc import Callable

from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.nvidia import without

from tests.fakes.runtime.genuine_runtimes import (
    DAEMON,
    GenuineRuntimes,
    converge,
    every_suite,
    with_cdi,
)

Make = Callable[..., GenuineRuntimes]


@every_suite
def test_containerds_handler_counts_until_the_mode_takes_it_back(machine: Make, suite: str) -> None:
    node = machine(suite)
    node.install_toolkit()
    assert without(node) == ("containerd",)
    converge(node, mode="runtime_class")
    assert without(node) == ()
    assert without(node, leaving=True) == ("containerd",)


@with_cdi
def test_dockers_handler_counts(machine: Make, suite: str) -> None:
    node = machine(suite, {DAEMON: json.dumps({"debug": True})})
    node.install_docker()
    assert "docker" in without(node)
    node.put(DAEMON, json.dumps({"runtimes": {"gpus": {"path": "nvidia-container-runtime"}}}))
    assert without(node) == ()
