# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's genuine MPS daemon and its manager are killed, twenty times each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fakes.daemon.running import GPU
from tests.support.helper_process import kill
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeShared
    from tests.machine.daemon.endurance.conftest import MakeRounds

pytestmark = pytest.mark.endurance

MPS = "{resources: [{name: gpu, replicas: 3, devices: [0]}]}"
SHARES, WHOLE = 3, 1


@pytest.mark.parametrize(
    ("who", "fault", "spared"),
    [
        ("daemon", "an MPS control daemon is killed", WHOLE),
        ("pid", "the MPS manager is killed", SHARES + WHOLE),
    ],
)
def test_one_is_killed(
    make_shared: MakeShared, rounds: MakeRounds, who: str, fault: str, spared: int
) -> None:
    """The GPU that is not shared has nothing to do with it."""
    shared = make_shared(SHARES + WHOLE, MPS, gpus=2)
    uuid = shared.uuids()[0]
    faults = rounds(fault, shared.node)
    for _round in faults:
        victim = shared.state(uuid)[who]

        def back(victim: int = victim) -> bool:
            state = shared.state(uuid)
            return state["state"] == "ready" and state[who] not in (0, victim)

        faults.recovers(lambda victim=victim: kill(victim), back)
        seen = shared.node.looks()  # the plugin hears of it later
        eventually(lambda seen=seen: shared.node.looks() >= seen + 5)
        shared.node.wait(GPU, SHARES + WHOLE)
    faults.check(spared=spared)
