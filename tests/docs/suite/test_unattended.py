# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The unit of unattended repairs, which has the keys of all nodes, as the page shows it."""

from __future__ import annotations

import pytest

from tests.docs.tables import exposure, pages

UNIT = "gpu-repair.service"
PAGE = (pages.ROOT / "docs/repair/unattended.md").read_text()
MOST = 4.0


def unit() -> str:
    (text,) = (block for block in pages.blocks(PAGE, "ini") if f"/{UNIT}" in block)
    return text


def test_the_unit_runs_as_a_user_and_keeps_facts_out_of_the_variables() -> None:
    lines = unit().splitlines()
    assert "User=ops" in lines
    (environment,) = (line for line in lines if line.startswith("Environment="))
    assert "ANSIBLE_INJECT_FACT_VARS=false" in environment


@pytest.mark.attack("unit-privileges")
@pytest.mark.skipif(not exposure.version(), reason="no systemd-analyze that can measure")
def test_the_unit_may_do_little_besides_connecting() -> None:
    assert exposure.measure(UNIT, unit()) <= MOST
    without = unit().partition("ReadWritePaths=")[0]
    assert exposure.measure(UNIT, without) > MOST
