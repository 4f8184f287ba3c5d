# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects that gpu.node.cluster_objects applies to a genuine API server."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._cluster.objects.capability import (
    ClusterObjectsCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.cluster_objects import SPEC

from tests.fakes.kubernetes.genuine_api import GenuineApi

Json = dict[str, Any]
DEFAULTS = {name: one.get("default") for name, one in SPEC["argument_spec"].items()}


def run(cluster: GenuineApi, *wanted: Json, check: bool = False, **options: Any) -> Plan:
    """Bring the cluster to what is wanted, as the module does, and return the plan of the first look."""
    access = {"kubeconfig": str(cluster.folder / "admin.conf"), "objects": list(wanted)}
    found = ClusterObjectsCapability({**DEFAULTS, **access, **options})
    first = found.plan(found.observe())
    if not check:
        for step in first.steps:
            found.apply(step)
        assert found.plan(found.observe()).steps == ()
    return first


def summaries(plan: Plan) -> list[str]:
    return [step.summary for step in plan.steps]
