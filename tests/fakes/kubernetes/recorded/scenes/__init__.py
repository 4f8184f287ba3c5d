# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is asked of an API server that has nothing in it yet, by scene."""

from __future__ import annotations

from tests.fakes.kubernetes.recorded.scenes import (
    accounts,
    claims,
    evictions,
    general,
    nodes,
    policies,
    slices,
    templates,
    webhooks,
)
from tests.fakes.kubernetes.recorded.steps import Step

MODULES = (
    nodes,
    claims,
    slices,
    general,
    evictions,
    accounts,
    policies,
    templates,
    webhooks,
)
# By the file that keeps their answers, and by their names.
SCENES: dict[str, dict[str, list[Step]]] = {
    one.__name__.rpartition(".")[2]: one.SCENES for one in MODULES
}
