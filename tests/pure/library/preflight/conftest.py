# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A fresh node with four H100s, looked at as the playbook does."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.action.preflight import configurations, wheelhouse
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.capability import (
    PreflightCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.preflight import SPEC

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import H100, FakeRoom, Look, node


@pytest.fixture
def host(request: pytest.FixtureRequest) -> FakeHost:
    return node(*getattr(request, "param", [H100] * 4))


@pytest.fixture
def room() -> FakeRoom:
    return FakeRoom()


@pytest.fixture
def look(host: FakeHost, room: FakeRoom) -> Look:
    """Return a function that runs the module and returns what it refuses; nothing where all is well."""

    def run(*, root: bool = True, components: Any = None, **variables: Any) -> str:
        components = components or SPEC["argument_spec"]["components"]["default"]
        refused = [*configurations(variables), *wheelhouse(variables)]
        params = {
            "variables": variables,
            "components": components,
            "cloud_init_timeout": 0,
            "refused": [one._asdict() for one in refused],
        }
        try:
            PreflightCapability(host, room, params, root=root).observe()  # type: ignore[arg-type]
        except NodeError as error:
            return str(error)
        finally:
            reads = (
                *("containerd", "cri-dockerd --version", "crio", "kubelet --version"),
                *("ldconfig -p", "python3", "systemctl show"),
            )
            assert not [one for one in host.ran if not " ".join(one).startswith(reads)]
        return ""

    return run
