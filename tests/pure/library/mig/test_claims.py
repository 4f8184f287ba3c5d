# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""MIG instances that claims of the DRA driver had made are no drift of a layout, and are not taken either."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import MigDevice
from ansible_collections.gpu.node.plugins.module_utils._mig.plan import GpuState, plan_gpu
from ansible_collections.gpu.node.plugins.module_utils._node.users.allocated import Holder
from ansible_collections.gpu.node.plugins.module_utils._node.users.busy import Busy

from tests.fakes.library.grids import A100, GPU, instance

OURS, CLAIMED = instance(A100, "3g.20gb", 4, 1), instance(A100, "1g.5gb", 0, 2)
DEVICE = MigDevice("MIG-2", GPU.uuid, 0, 0, 2, 0, "1g.5gb", 5 << 30)


def state(*claimed: str, holders: tuple[Holder, ...] = ()) -> GpuState:
    return GpuState(
        GPU,
        A100,
        (OURS, CLAIMED),
        (),
        (DEVICE,),
        holders=holders,
        claimed=frozenset(claimed),
    )


def test_what_a_claim_had_made_is_no_drift() -> None:
    plan = plan_gpu(state("MIG-2"), True, {"3g.20gb": 1})
    assert plan.steps == ()
    assert plan.before == plan.after
    assert plan.staying == (1, 2)


def test_what_nobody_claims_any_more_is() -> None:
    plan = plan_gpu(state("MIG-of-an-earlier-claim"), True, {"3g.20gb": 1})
    assert [one.action for one in plan.steps] == ["destroy_gi"]


@pytest.mark.parametrize(("enabled", "layout"), [(True, {"7g.40gb": 1}), (False, {})])
def test_a_layout_that_needs_it_is_refused_by_the_pods_name(
    enabled: bool, layout: dict[str, int]
) -> None:
    holder = Holder("pod default/x (container main)", 2, 0)
    with pytest.raises(Busy, match="default/x"):
        plan_gpu(state("MIG-2", holders=(holder,)), enabled, layout)
