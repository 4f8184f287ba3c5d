# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Every function, every delay, and hangs by the dozen: what takes minutes."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nvsim import testing

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import hanging as h
from tests.fakes.daemon import running

pytestmark = pytest.mark.endurance

GPU, MIG = h.GPU, h.MIG
SLOW, IN_TIME = 4.0, 10.0
TIMES = 20


@pytest.fixture(scope="module")
def wide() -> Iterator[Node]:
    """A GPU for each function that is asked at each look, those for MIG in MIG mode, and one more."""
    whole, mig = len(h.EACH_LOOK) + 1, len(h.EACH_LOOK_MIG)
    node = running.Node(Path(tempfile.mkdtemp(prefix="gp-")), testing.start("h100-80", whole + mig))
    for index in range(whole, whole + mig):
        node.layout(index, "1g.10gb")
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: mixed}")
    node.wait(GPU, whole)
    node.wait(MIG, mig)
    yield node
    node.stop()
    node.sim.stop()


@pytest.fixture
def node(wide: Node) -> Iterator[Node]:
    h.until_well(wide)
    systemd = h.Systemd(wide)
    yield wide
    wide.sim.ctl("clear-faults")
    h.until_well(wide, 30)
    systemd.stop()
    assert systemd.longest < 15
    assert wide.logged().count("info: started") == 1


def assigned(node: Node) -> dict[str, str]:
    """Return for each function that is asked at each look a GPU of which it is asked."""
    gpus = [one["uuid"] for one in node.sim.ctl("status")["gpus"]]
    first = len(h.EACH_LOOK) + 1
    return h.each_its_own(h.EACH_LOOK, gpus) | h.each_its_own(h.EACH_LOOK_MIG, gpus[first:])


def calls_a_look(node: Node) -> dict[tuple[str, str], float]:
    """Return how often a function is called of a GPU at each look."""
    node.sim.ctl("called")
    time.sleep(3)
    called = node.sim.ctl("called")
    looks = called["nvmlDeviceGetCount_v2"][""]
    return {(name, gpu): n / looks for name, of in called.items() for gpu, n in of.items()}


@pytest.mark.parametrize("seconds", [1, 6, 20, 60])
def test_each_function_that_is_slow(node: Node, seconds: int) -> None:
    """A GPU is sick where a look at it takes longer than four seconds, and stays so while it does."""
    of, calls = assigned(node), calls_a_look(node)
    sick = {gpu for name, gpu in of.items() if round(calls[name, gpu]) * seconds >= SLOW}
    for name, gpu in of.items():
        node.sim.ctl("delay", function=name, gpu=gpu, ms=seconds * 1000)
    if sick:
        h.until_sick(node, sick, IN_TIME)
    end = time.monotonic() + 25
    while time.monotonic() < end:
        assert h.sick(node) == sick
        time.sleep(0.5)


@pytest.mark.parametrize("function", [*h.EACH_LOOK, *h.OF_NO_GPU, "*"])
def test_each_function_that_hangs_for_all(node: Node, function: str) -> None:
    gpus = [one["uuid"] for one in node.sim.ctl("status")["gpus"]]
    node.sim.ctl("hang", function=function)
    h.until_sick(node, gpus, IN_TIME + 2)
    begun = time.monotonic()
    with running.plugin_channel(node) as ask:
        assert "has not answered" in ask(gpus[0])
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("function", h.AT_OPENING)
def test_what_hangs_while_nvml_is_opened_again(node: Node, function: str) -> None:
    gpus = [one["uuid"] for one in node.sim.ctl("status")["gpus"]]
    node.sim.ctl("hang", function=function)
    h.open_again(node)
    h.until_sick(node, gpus, IN_TIME + 2)


def test_links_that_hang_between_cabled_gpus(make_node: MakeNode) -> None:
    node = make_node(3, product="v100")
    node.sim.ctl("cable", gpu="0", other="2", links=2)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, 3)
    first = node.sim.ctl("status")["gpus"][0]["uuid"]
    node.sim.ctl("hang", function=h.ONCE_CABLED[0], gpu="0")
    h.open_again(node)
    h.until_sick(node, [first], IN_TIME)
    node.sim.ctl("clear-faults")
    h.until_well(node)


def test_gpus_that_hang_and_come_back_twenty_times(make_node: MakeNode) -> None:
    node = make_node(TIMES + 1)
    node.start_kubelet()
    node.start_daemon()
    node.wait(GPU, TIMES + 1)
    gpus = [one["uuid"] for one in node.sim.ctl("status")["gpus"]][:TIMES]
    begun: dict[str, float] = {}
    sick: dict[str, float] = {}
    well: dict[str, float] = {}
    for gpu in gpus:
        node.sim.ctl("hang", function="nvmlDeviceGetMemoryInfo", gpu=gpu)
        begun[gpu] = time.monotonic()
        time.sleep(0.3)
    while len(sick) < TIMES:
        for gpu in h.sick(node) - set(sick):
            sick[gpu] = time.monotonic() - begun[gpu]
        assert time.monotonic() - begun[gpus[-1]] < 2 * IN_TIME
        time.sleep(0.1)
    node.sim.ctl("clear-faults")
    ended = time.monotonic()
    while len(well) < TIMES:
        for gpu in set(gpus) - h.sick(node) - set(well):
            well[gpu] = time.monotonic() - ended
        assert time.monotonic() - ended < IN_TIME
        time.sleep(0.1)
    assert set(sick) == set(gpus)
    assert node.logged().count("info: started") == 1
    for name, found in (("unhealthy", sick), ("healthy again", well)):
        worst, median = max(found.values()), statistics.median(found.values())
        print(f"{TIMES} hangs: {name} after {median:.1f} s, at worst {worst:.1f} s")
    print(f"{TIMES} hangs: 0 other devices lost, 0 restarts")
