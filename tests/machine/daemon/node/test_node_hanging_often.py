# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Every function, slow and hanging, and hangs by the dozen: what takes minutes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import hanging as h
from tests.fakes.daemon import running

pytestmark = pytest.mark.endurance

GPU, MIG = running.GPU, h.MIG
LATE = 1  # second, after which a GPU is late
SOON = ("--nvml-timeout", f"{LATE}s")
TIMES = 20
WHOLE = len(h.EACH_LOOK) + 1


@pytest.fixture(scope="module")
def wide() -> Iterator[Node]:
    """A GPU for each function that is asked at each look, those for MIG in MIG mode, and one more."""
    mig = len(h.EACH_LOOK_MIG)
    with running.nodes() as make:
        node = make(WHOLE + mig)
        for index in range(WHOLE, WHOLE + mig):
            node.layout(index, "1g.10gb")
        node.serve(WHOLE, "flags: {migStrategy: mixed}", *SOON)
        node.wait(MIG, mig)
        yield node


@pytest.fixture
def node(wide: Node) -> Iterator[Node]:
    h.until_well(wide)
    with h.one_process(wide):
        yield wide
        wide.sim.ctl("clear-faults")
        h.until_well(wide)


def test_each_function_that_is_slow_keeps_its_gpu_sick(node: Node) -> None:
    """A look that ends too late is no better than one that never does, however many of them end."""
    gpus = node.uuids()
    of = h.each_its_own(h.EACH_LOOK, gpus) | h.each_its_own(h.EACH_LOOK_MIG, gpus[WHOLE:])
    for name, gpu in of.items():
        node.sim.ctl("delay", function=name, gpu=gpu, ms=1500 * LATE)
    sick = set(of.values())
    h.until_sick(node, sick)
    unchanged(lambda: sick <= h.sick(node), True, node.looks, 30)
    h.until_sick(node, sick)


@pytest.mark.parametrize("function", [*h.EACH_LOOK, *h.OF_NO_GPU, "*"])
def test_each_function_that_hangs_for_all(node: Node, function: str) -> None:
    gpus = node.uuids()
    node.sim.ctl("hang", function=function)
    h.until_sick(node, gpus)
    with running.plugin_channel(node) as ask:
        assert "has not answered" in ask(gpus[0])


@pytest.mark.parametrize("function", h.AT_OPENING)
def test_what_hangs_while_nvml_is_opened_again(node: Node, function: str) -> None:
    node.sim.ctl("hang", function=function)
    h.open_again(node)
    h.until_sick(node, node.uuids())


def test_links_that_hang_between_cabled_gpus(make_node: MakeNode) -> None:
    node = make_node(3, product="v100")
    node.sim.ctl("cable", gpu="0", other="2", links=2)
    first, _second, _third = node.serve(3, "", *SOON)
    h.hang_at_opening(node, {h.ONCE_CABLED[0]: first})
    h.until_sick(node, [first])
    node.sim.ctl("clear-faults")
    h.until_well(node)


def test_gpus_that_hang_one_after_the_other_and_come_back_together(make_node: MakeNode) -> None:
    node = make_node(TIMES + 1)
    *gpus, _well = node.serve(TIMES + 1, "", *SOON)
    with h.one_process(node):
        for number, gpu in enumerate(gpus, 1):
            node.sim.ctl("hang", function="nvmlDeviceGetMemoryInfo", gpu=gpu)
            if number % 5 == 0:  # those before are sick already, or about to be
                eventually(lambda number=number: set(gpus[: number - 4]) <= h.sick(node))
        h.until_sick(node, gpus)
        node.sim.ctl("clear-faults")
        h.until_well(node)
