# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A release is compiled when it is deployed: the units can't write byte code, and would compile it at each start."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import KIND_OF_NODE

# All that any process of ours loads on a node, where the webhook is not, and what the label process takes from the
# Kubernetes client.
LOAD = """
import importlib, pkgutil
import gpu_plugin
for one in pkgutil.walk_packages(gpu_plugin.__path__, "gpu_plugin."):
    if not one.name.endswith("__main__") and ".webhook" not in one.name:
        importlib.import_module(one.name)
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config import exec_provider, kube_config
ApiClient(Configuration())
"""

pytestmark = [pytest.mark.node, pytest.mark.long]


def test_nothing_is_compiled_at_a_start(brought_up: Callable[..., Node]) -> None:
    node = brought_up("compiled", "a100-40", 2, **KIND_OF_NODE)
    python = "/opt/gpu-node/current/bin/python"
    said = node.run("sh", "-c", f"{python} -B -v -c '{LOAD}' 2>&1")
    loaded = re.findall(r"^# code object from '?(\S+?)'?$", said, re.MULTILINE)
    assert len(loaded) > 300
    assert [path for path in loaded if path.endswith(".py")] == []
