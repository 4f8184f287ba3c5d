# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The DRA driver killed at any change that it makes: the next process finishes, and nothing is left."""

from __future__ import annotations

import contextlib
import signal

import pytest
from standin_kubelet.dra import Claim, DraError

from tests.fakes.dra.driving import DraNode, MakeDra
from tests.runner.tiers import long_but_first
from tests.support.waiting import eventually

MIG = "gpu-0-mig-1g10gb-19-3"
PREPARED = long_but_first([("gpu-0-share", 3), ("gpu-0", 3), (MIG, 9)])
UNPREPARED = long_but_first([("gpu-0-share", 3), ("gpu-0", 3), (MIG, 7)])


def after(node: DraNode, claim: Claim, *, prepares: bool) -> bool:
    """Have the kubelet ask, and return whether the process was killed over it; then the next one runs."""
    try:
        node.start_pod(claim) if prepares else node.end_pod(claim)
    except DraError:
        assert node.ended() == -signal.SIGKILL
        node.start()
        return True
    node.kill()
    return False


def unprepared(node: DraNode, claim: Claim) -> bool:
    """Have the kubelet end the claim's pod, and return whether it need not ask again."""
    with contextlib.suppress(DraError):
        node.end_pod(claim)
        return True
    return False


def check_prepared(node: DraNode, claim: Claim, device: str) -> None:
    assert node.kept()[claim[1]]["state"] == "prepared"
    assert [one.name for one in node.cdi.glob("gpu.node*")] == [node.file(claim).name]
    assert not list(node.cdi.glob(".*"))
    if device == MIG:
        assert [(profile, start) for _gi, profile, start in node.instances()] == [(19, 3)]


def check_gone(node: DraNode) -> None:
    assert node.kept() == {}
    assert not list(node.cdi.glob("*gpu.node*"))
    assert node.instances() == []


@pytest.mark.parametrize(("device", "least"), PREPARED, ids=str)
def test_killed_at_any_step_of_prepare_the_next_process_finishes(
    make_dra: MakeDra, device: str, least: int
) -> None:
    node = make_dra(1)
    if device == MIG:
        node.mig_mode(0)
    for at in range(1, 30):
        claim = node.claim(f"claim-{at}", device)
        node.start_to_be_killed(at)
        if not after(node, claim, prepares=True):
            break
        names = eventually(lambda claim=claim: node.start_pod(claim))
        assert len(names) == 1
        check_prepared(node, claim, device)
        eventually(lambda claim=claim: unprepared(node, claim))
        check_gone(node)
        node.kill()
    assert at > least


@pytest.mark.parametrize(("device", "least"), UNPREPARED, ids=str)
def test_killed_at_any_step_of_unprepare_the_next_process_finishes(
    make_dra: MakeDra, device: str, least: int
) -> None:
    node = make_dra(1)
    if device == MIG:
        node.mig_mode(0)
    for at in range(1, 30):
        claim = node.claim(f"claim-{at}", device)
        node.start()
        node.start_pod(claim)
        node.kill()
        node.start_to_be_killed(at)
        del node.api.objects[
            f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{claim[1]}"
        ]
        if not after(node, claim, prepares=False):
            break
        eventually(lambda claim=claim: unprepared(node, claim))
        check_gone(node)
        node.kill()
    assert at > least


@pytest.mark.parametrize("device", [pytest.param("gpu-0-share", marks=pytest.mark.long), MIG])
def test_killed_while_preparing_a_claim_that_is_given_up_leaves_nothing(
    make_dra: MakeDra, device: str
) -> None:
    """The pod is deleted before the next process is asked to prepare: the kubelet only unprepares."""
    node = make_dra(1)
    if device == MIG:
        node.mig_mode(0)
    for at in (2, 3, 5, 7):
        claim = node.claim(f"claim-{at}", device)
        node.start_to_be_killed(at)
        if not after(node, claim, prepares=True):
            break
        eventually(lambda claim=claim: unprepared(node, claim))
        check_gone(node)
        node.kill()
