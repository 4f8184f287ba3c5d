# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kubelet that answers which pods hold what, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin._shared._node.users.allocated import SOCKET
from standin_kubelet import pods
from standin_kubelet.devices import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Serve what a ledger holds on the socket of a kubelet's root folder."""
    (tmp_path / "device-plugins").mkdir()
    made = Ledger(tmp_path / "device-plugins/kubelet_internal_checkpoint")
    serving = pods.PodResources(tmp_path / SOCKET, made)
    serving.start()
    yield made
    serving.stop()
