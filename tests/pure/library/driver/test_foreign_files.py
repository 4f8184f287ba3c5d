# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files of somebody else that have the names of the driver's."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import Modules

from tests.fakes.packages.driver_nodes import actions, fresh, node

ALL = ["install", "hold", "load", "persistence"]


def test_a_file_of_somebody_else_with_the_name_of_our_sources_is_refused() -> None:
    path = "/etc/apt/sources.list.d/gpu-node.sources"
    with pytest.raises(NodeError, match=f"{path} is there, and gpu.node has not written it.*Next"):
        actions(fresh(foreign_sources=path))
    assert actions(node(foreign_sources=path)) == ALL


def test_a_modprobe_file_of_somebody_else_is_refused_if_ours_is_needed() -> None:
    foreign = Modules(foreign=True, nouveau=True, blacklisted=True)
    assert actions(node(modules=foreign)) == ALL
    options = (("nvidia.NVreg_DeviceFileMode", "0660"),)
    with pytest.raises(
        NodeError, match=r"modprobe\.d/gpu-node\.conf is there, and gpu\.node has not"
    ):
        actions(node(modules=foreign), module_options=options)
