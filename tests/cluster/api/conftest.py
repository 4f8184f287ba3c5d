# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A control plane with a node for each allocation and publication, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.cluster.allocation_modes import ModesCluster


@pytest.fixture(scope="module")
def modes_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModesCluster]:
    """Start the programs once."""
    tolerates = "--enable-admission-plugins=ExtendedResourceToleration"
    with ModesCluster(tmp_path_factory.mktemp("api"), tolerates) as cluster:
        cluster.fill()
        yield cluster


@pytest.fixture
def modes_cluster(modes_control_plane: ModesCluster) -> Iterator[ModesCluster]:
    """Remove the pods and claims of each test."""
    yield modes_control_plane
    modes_control_plane.clean()
