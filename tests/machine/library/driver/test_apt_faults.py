# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What apt says where it fails in ways that a small one in a folder does not."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.packages.debian import converged
from tests.fakes.packages.driver_nodes import recording
from tests.fakes.packages.driver_runs import converge


def test_failure_that_is_not_of_the_mirror_fetches_no_lists() -> None:
    node = converged()
    node.answers = [Completed(100, "", "E: You don't have enough free space")]
    before = node.packages
    with pytest.raises(NodeError, match="enough free space"):
        converge(node, version="535")
    assert "update" not in node.changes()
    assert node.packages == before


def test_removal_that_apt_cannot_resolve_says_why() -> None:
    node = converged()
    node.commands["apt-get",] = Completed(100, recording("simulate-purge-trixie"), "")
    with pytest.raises(NodeError, match=r"(?s)unmet dependencies.*firmware-nvidia-gsp"):
        converge(node, state="absent")
