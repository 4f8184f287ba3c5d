# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""As many devices as a node has, with one manager. What it takes is measured in tests/bench."""

from __future__ import annotations

import signal

import pytest
from gpu_plugin.tools.files import stat_fields

from tests.fakes.mps import many
from tests.fakes.mps.mps_running import MakeMps
from tests.support.helper_process import kill
from tests.support.waiting import LIMIT


@pytest.mark.long
def test_one_crash_of_fifty_six_daemons_is_one_devices(make_mps: MakeMps) -> None:
    mps = make_mps(many.GPUS, product=many.PRODUCT)
    devices = many.divided(mps)
    many.share(mps, devices)
    daemons = {mps.status(device)["daemon"] for device in devices}
    assert len(daemons) == 56
    kill(mps.status(devices[7])["daemon"])
    mps.ready(devices[7], restarts=1)
    after = {mps.status(device)["daemon"] for device in devices}
    assert len(daemons - after) == 1
    mps.managers[-1].send_signal(signal.SIGINT)
    assert mps.managers[-1].wait(LIMIT) == 0
    assert not [one for one in daemons | after if stat_fields(one)]
