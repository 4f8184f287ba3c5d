# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which pods API servers ask the webhook about: those that it may change, and no others."""

from __future__ import annotations

from gpu_cluster.hami.cel import expression
from gpu_cluster.hami.settings import Names, Settings

COUNT, ANNOTATED = '"nvidia.com/gpu"', 'startsWith("nvidia.com/")'


def test_a_count_alone_needs_an_annotation() -> None:
    sized, annotated, scheduler = expression(Settings(default_memory=5000)).split(
        " || (has(object."
    )
    assert COUNT not in sized
    for name in ("gpumem", "gpumem-percentage", "gpucores", "priority"):
        assert sized.count(f'"nvidia.com/{name}"') == 2  # in limits and in requests
    assert annotated.startswith("metadata.annotations)")
    assert ANNOTATED in annotated
    assert 'startsWith("hami.io/")' in annotated
    assert annotated.count(COUNT) == 2
    assert scheduler == 'spec.schedulerName) && object.spec.schedulerName == "hami-scheduler")'


def test_pods_of_each_scheduler_are_looked_at() -> None:
    several = Settings(schedulers=("hami-scheduler", "4pd-scheduler"))
    assert expression(several).endswith(
        'object.spec.schedulerName in ["hami-scheduler", "4pd-scheduler"])'
    )
    other = expression(Settings(schedulers=("4pd-scheduler",)))
    assert other.endswith('object.spec.schedulerName == "4pd-scheduler")')


def test_a_renamed_count_is_looked_at_by_itself() -> None:
    """No node has such a resource, so that the webhook makes a claim of it."""
    found = expression(Settings(Names(count="a.io/n")))
    assert ANNOTATED not in found
    assert found.count('"a.io/n"') == 2
