# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""No unit may do much more than its work, and the page about security has the figures."""

from __future__ import annotations

import pytest

from tests.docs.tables import exposure

PLUGIN, LABELS = "gpu-device-plugin.service", "gpu-node-labels.service"
MOST = 5.5
measured = pytest.mark.skipif(not exposure.version(), reason="no systemd-analyze that can measure")


@pytest.mark.attack("unit-privileges")
@measured
def test_no_unit_may_do_much() -> None:
    found = {unit: exposure.exposure(unit) for unit in exposure.units()}
    assert {unit for unit in found if found[unit] > (3.4 if unit == PLUGIN else MOST)} == set()


@pytest.mark.attack("unit-privileges")
@measured
def test_the_measure_sees_what_is_left_out() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exposure, "units", lambda: {"gpu-bare.service": "[Service]\nExecStart=/x\n"})
        assert exposure.exposure("gpu-bare.service") > MOST


@pytest.mark.attack("unit-privileges")
@pytest.mark.skipif(exposure.version() != exposure.SYSTEMD, reason="the page is of another systemd")
def test_the_page_has_the_figures() -> None:
    assert exposure.shown() == exposure.table(), "run make docs-tables"
