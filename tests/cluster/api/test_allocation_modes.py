# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the genuine kube-scheduler gives to pods on a node of each allocation and publication, and who sees it."""

from __future__ import annotations

import pytest

from tests.fakes.cluster.allocation_modes import REQUESTS, TABLE, Mode, ModesCluster, each_mode

each_request = pytest.mark.parametrize("request_name", REQUESTS)


@each_mode
@each_request
def test_a_request_is_placed_where_the_table_has_it(
    modes_cluster: ModesCluster, request_name: str, mode: Mode
) -> None:
    modes_cluster.create_pod("job", mode, REQUESTS[request_name])
    assert modes_cluster.is_placed("job") == TABLE.works(request_name, mode)
