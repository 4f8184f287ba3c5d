# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each row in the table of distributions is known wherever a distribution is asked for."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base import distributions
from ansible_collections.gpu.node.plugins.module_utils._base.distributions import (
    SUPPORTED,
    Distribution,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages.presets import (
    FOLDERS,
    System,
    cuda_folder,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.family import load_family
from ansible_collections.gpu.node.plugins.module_utils._node.machine import recorded

EACH = [
    pytest.param(one, name, codename, id=f"{name}-{number}")
    for one in SUPPORTED
    for name in one.ids
    for codename, number in one.releases.items()
]


@pytest.mark.parametrize(("row", "name", "codename"), EACH)
def test_each_release_is_known_by_its_os_release(
    row: Distribution, name: str, codename: str
) -> None:
    said = {"ID": name, "VERSION_ID": row.releases[codename], "VERSION_CODENAME": codename}
    assert distributions.release(said) == codename
    assert distributions.supported(name, codename) is row
    assert distributions.family(said) == row.family


@pytest.mark.parametrize(("row", "name", "codename"), EACH)
def test_each_release_has_a_folder_in_nvidias_repository(
    row: Distribution, name: str, codename: str
) -> None:
    system = System(name, row.releases[codename], "x86_64", row.family, name)
    assert cuda_folder(system) in FOLDERS


def test_each_family_has_its_driver_and_its_package_manager() -> None:
    assert {one.family for one in SUPPORTED} == {*recorded.FAMILIES}
    assert all(load_family(one.family).traits.name == one.family for one in SUPPORTED)
