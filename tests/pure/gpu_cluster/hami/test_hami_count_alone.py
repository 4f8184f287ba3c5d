# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A count alone where the configuration has a default memory: a whole GPU as with HAMi, or a share as before it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_cluster.hami import settings as hami
from gpu_cluster.hami.cel import expression
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.settings import Names, Settings
from gpu_plugin._shared._base.errors import InputError

from tests.fakes.cluster.hami_pods import (
    MIG_NODES,
    MPS_NODES,
    OTHER_NODES,
    changed,
    exactly,
    limits,
    pod,
    refusal,
)

SHARE_CLASS = "share.gpu.node"
SHARED = Settings(default_memory=5000, count_alone="share")


def test_a_count_alone_gets_the_default_memory_when_counts_are_shares() -> None:
    way = exactly(pod(limits(gpu=1)), settings=SHARED)
    assert (way["deviceClassName"], way["count"]) == (SHARE_CLASS, 1)
    assert way["capacity"] == {"requests": {"memory": "5000Mi"}}
    after, _found = changed(pod(limits(gpu=1)), settings=SHARED)
    assert after["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "0"}


def test_a_count_alone_gets_the_default_cores_too() -> None:
    way = exactly(pod(limits(gpu=1)), settings=replace(SHARED, default_cores=20))
    assert way["capacity"] == {"requests": {"memory": "5000Mi", "cores": "20"}}
    assert mutate(pod(limits(gpu=1)), replace(SHARED, default_cores=100), MPS_NODES).patch == []


def test_a_priority_beside_the_count_does_not_make_a_whole_gpu() -> None:
    way = exactly(pod(limits(gpu=1, priority=0)), settings=SHARED)
    assert way["capacity"] == {"requests": {"memory": "5000Mi"}}


def test_amounts_beside_the_count_mean_what_they_mean_without_the_variable() -> None:
    for amounts in ({"gpumem": 3000}, {"gpucores": 30}, {"gpumem_percentage": 100}):
        one = pod(limits(gpu=1, **amounts))
        assert exactly(one, settings=SHARED) == exactly(one, settings=Settings(default_memory=5000))


def test_a_count_alone_is_a_whole_gpu_without_a_default_memory() -> None:
    for settings in (Settings(count_alone="share"), Settings(count_alone="share", default_cores=9)):
        assert mutate(pod(limits(gpu=1)), settings, MPS_NODES).patch == []
        assert expression(settings) == expression(Settings())


def test_a_count_alone_of_several_gpus_is_several_shares() -> None:
    way = exactly(pod(limits(gpu=2)), OTHER_NODES, SHARED)
    assert (way["deviceClassName"], way["count"]) == (SHARE_CLASS, 2)
    assert "under mps a container has shares of one GPU only" in refusal(
        pod(limits(gpu=2)), settings=SHARED
    )


def test_mig_devices_stand_for_a_share_of_the_default_memory() -> None:
    (template,) = mutate(pod(limits(gpu=1)), SHARED, MIG_NODES).templates
    assert "9728Mi" in str(template.spec)


def test_api_servers_ask_about_a_count_alone_when_counts_are_shares() -> None:
    found = expression(SHARED)
    assert found.count('"nvidia.com/gpu"') == 2
    assert "startsWith" not in found
    renamed = Names(count="a.io/n")
    assert expression(replace(SHARED, names=renamed)) == expression(Settings(renamed))


def test_a_default_memory_that_a_count_alone_does_not_get_is_warned_of() -> None:
    text = "nvidia: {defaultMem: 5000}"
    (note,) = hami.configured(hami.parse(text, "x")).notes
    assert note == (
        "defaultMemory is 5000, and a container with nvidia.com/gpu alone gets a whole GPU all the same, as with HAMi"
        " 2.10: set fractions_count_alone (--count-alone) to share for 5000 MiB, as with 4paradigm's scheduler"
    )
    shared = hami.configured(hami.parse(text, "x"), count_alone="share")
    assert (shared.count_alone, shared.notes) == ("share", ())


def test_a_choice_without_a_default_memory_is_warned_of() -> None:
    (note,) = hami.configured(Settings(), count_alone="share").notes
    assert note.startswith("fractions_count_alone (--count-alone) share has no effect: ")
    assert hami.configured(Settings()).notes == ()


@pytest.mark.parametrize("choice", ["", "shared", "WHOLE", "both"])
def test_an_unknown_choice_is_refused(choice: str) -> None:
    with pytest.raises(InputError, match="expected whole or share"):
        hami.configured(Settings(), count_alone=choice)
