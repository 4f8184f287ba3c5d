# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the driver's capability plans in each scene is what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.packages.driver_plans import KEEP, Recorder, keep, kept


@pytest.fixture(autouse=True)
def plans(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compare the plans with those that are kept, where there are any."""
    recorder = Recorder(monkeypatch)
    yield
    scene = request.node.nodeid.rpartition("library/driver/")[2]
    for family, found in recorder.found.items():
        if KEEP:
            keep(family, {scene: found})
        assert found == kept(family).get(scene, found)
