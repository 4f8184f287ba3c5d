# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A stand-in API, and what speaks with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.cluster.access import Access
from gpu_plugin.labels.api import NodeApi

from tests.fakes.kubernetes.standin_api import NODE, Api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def node(api: Api) -> Iterator[NodeApi]:
    made = NodeApi(Access(str(api.kubeconfig)), NODE)
    yield made
    made.close()
