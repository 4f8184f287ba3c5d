# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A GPU that pods without a client hold gets into MPS, or out of it, when they have ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fakes.mps.mps_sharing import DEFAULT, EXCLUSIVE_PROCESS, GPU, Shared
from tests.support.waiting import eventually, unchanged

MakeShared = Callable[..., Shared]
FOUR = "{resources: [{name: gpu, replicas: 4}]}"
SLICES = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"


def waiting(shared: Shared) -> str:
    """Return the pods that are waited for, once the kubelet was asked."""
    found = eventually(lambda: [one for one in shared.node.problems(GPU).values() if "pod" in one])
    assert len(set(found)) == 1
    return str(found[0])


def test_a_gpu_that_an_idle_pod_has_whole_is_not_taken_for_mps(make_shared: MakeShared) -> None:
    shared = make_shared(gpus=1)
    shared.start("")
    shared.wait(GPU, 1)
    (uuid,) = shared.node.admit("trainer", gpu=1)["devices"][GPU]
    shared.change(FOUR)
    eventually(lambda: "default/trainer" in waiting(shared))
    unchanged(lambda: (shared.mode(), shared.left()), (DEFAULT, []), shared.node.looks)
    shared.node.ask("release", pod="trainer")
    shared.wait(GPU, 4)
    assert shared.mode() == EXCLUSIVE_PROCESS
    assert shared.state(uuid)["state"] == "ready"


@pytest.mark.long
def test_shares_that_idle_pods_have_keep_their_daemon_until_these_end(
    make_shared: MakeShared,
) -> None:
    shared = make_shared(gpus=1)
    shared.start(FOUR)
    shared.wait(GPU, 4)
    (uuid,) = shared.uuids()
    daemon = shared.state(uuid)["daemon"]
    for pod in ("a", "b"):
        shared.node.admit(pod, gpu=1)
    for now, first in (("", "a"), (SLICES, "b")):
        shared.node.config.write_text(now)
        eventually(lambda first=first: f"default/{first}" in waiting(shared))
        kept = (EXCLUSIVE_PROCESS, [f"{uuid}.settings.json"])
        unchanged(lambda: (shared.mode(), shared.left()), kept, shared.node.looks)
        assert shared.state(uuid)["daemon"] == daemon
        assert shared.healthy() == 0
        shared.node.ask("release", pod=first)
    shared.wait(GPU, 4)
    eventually(shared.mode, DEFAULT)
