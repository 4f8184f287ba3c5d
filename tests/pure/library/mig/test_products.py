# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is known of products by their PCI ids is what their GPUs say of themselves."""

from __future__ import annotations

import tomllib

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import GiProfile
from ansible_collections.gpu.node.plugins.module_utils._mig.products import (
    BY_ID,
    PRODUCTS,
    never,
    product,
)

from tests.fakes.library import grids
from tests.support.paths import FAKES

CATALOG = FAKES / "nvsim/nvsim/catalog"
READ = {path.stem: tomllib.loads(path.read_text()) for path in sorted(CATALOG.glob("*.toml"))}
Grid = set[tuple[str, int, int, tuple[tuple[int, int], ...]]]


def grid(profiles: tuple[GiProfile, ...]) -> Grid:
    return {(one.name, one.slices, one.max_count, one.placements) for one in profiles}


def simulated(name: str) -> Grid:
    """Return the profiles of a simulated product, which are those of a real one."""
    return {
        (
            one["name"],
            one["slices"],
            one["max"],
            tuple((at, one["size"]) for at in one["placements"]),
        )
        for one in READ[name]["mig"]["profiles"]
    }


@pytest.mark.parametrize("name", ["a30", "a100-40", "a100-80", "h100-80", "h200-141"])
def test_profiles_are_those_of_the_product(name: str) -> None:
    known = product(READ[name]["pci_device"])
    assert known is not None
    assert simulated(name) <= grid(known.profiles)


def test_the_planners_grid_is_the_same() -> None:
    known = product(0x20B0)
    assert known is not None
    assert grid(known.profiles) == grid(grids.A100)


@pytest.mark.parametrize("name", sorted(READ))
def test_who_can_not_be_partitioned(name: str) -> None:
    assert never(READ[name]["pci_device"]) == ("mig" not in READ[name])


def test_no_id_is_that_of_two_products() -> None:
    assert sum(len(ids) for ids, _profiles in PRODUCTS.values()) == len(BY_ID)
    assert not any(never(one) for one in BY_ID)
    assert not never(0x2BB1)  # RTX PRO 6000 Blackwell, which can be
    assert not never(0xFFFF)  # of which nothing is known
    assert never(0x2236)  # A10, which is an Ampere that can't
