# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drivers that say what can't be: who is concerned is unfit, and nobody else."""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nvsim import handles, testing

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import hanging as h
from tests.fakes.daemon import running

GPU, MIG = h.GPU, h.MIG
COUNT, UUID, MEMORY = "nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"
GONE = handles.encode(handles.Handle(handles.MIG, 2, 5, 0))


@pytest.fixture(scope="module")
def shared() -> Iterator[Node]:
    """Two GPUs and a third in MIG mode, for all cases of this file."""
    node = running.Node(Path(tempfile.mkdtemp(prefix="gp-")), testing.start("h100-80", 3))
    node.layout(2, "1g.10gb")
    node.start_kubelet()
    node.start_daemon("flags: {migStrategy: mixed}")
    node.wait(GPU, 2)
    node.wait(MIG, 1)
    yield node
    node.stop()
    node.sim.stop()


@pytest.fixture
def node(shared: Node) -> Iterator[Node]:
    eventually(lambda: len(h.health(shared)) == 3 and not h.sick(shared))
    yield shared
    shared.sim.ctl("clear-faults")
    assert shared.daemon is not None
    assert shared.daemon.poll() is None
    eventually(lambda: len(h.health(shared)) == 3 and not h.sick(shared))  # longer each time


def gpus(node: Node) -> list[str]:
    return [one["uuid"] for one in node.sim.ctl("status")["gpus"]]


def reasons(node: Node) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in node.status()["resources"].values():
        found |= one["problems"]
    return found


def number(value: int) -> bytes:
    return struct.pack("<I", value)


LIES = [
    (COUNT, None, 0, number(1), (1, 2), "not found"),
    (COUNT, None, 0, number(0xFFFFFFFF), (0, 1, 2), "says that there are 4294967295"),
    (UUID, "1", 1, b"GPU-\xff\xfe\0", (1,), "UUID of GPU 1, which is given as"),
    (UUID, "1", 1, b"\0", (1,), "UUID of GPU 1, which is given as ''"),
    (UUID, "1", 1, b"GPU-a b::0\0", (1,), "UUID of GPU 1, which is given as 'GPU-a b::0'"),
    ("nvmlDeviceGetMigMode", "0", 1, number(7), (0,), "MIG mode of GPU 0, which is given as 7"),
    ("nvmlDeviceGetGpuInstances", "2", 3, number(0xFFFFFFFF), (2,), "it can't be read"),
]
HARMLESS = [
    (COUNT, None, 0, number(9)),
    (MEMORY, "0", 1, struct.pack("<3Q", 0, 0, 0)),
    (MEMORY, "1", 1, struct.pack("<3Q", *[(1 << 64) - 1] * 3)),
    ("nvmlDeviceGetMaxMigDeviceCount", "2", 1, number(0xFFFFFFFF)),
    ("nvmlDeviceGetFieldValues", "1", 2, b"\xff" * 40),
    ("nvmlDeviceGetRemappedRows", "1", 2, number(0xFFFFFFFF)),
    ("nvmlSystemGetDriverVersion", None, 0, b"\xff\n550\0"),
]


def lie(node: Node, function: str, gpu: str | None, at: int, data: bytes) -> None:
    of = {"gpu": gpu} if gpu else {}
    node.sim.ctl("lie", function=function, at=at, data=data.hex(), **of)


@pytest.mark.parametrize(("function", "gpu", "at", "data", "sick", "why"), LIES)
def test_what_can_not_be_concerns_who_says_it(
    node: Node,
    function: str,
    gpu: str | None,
    at: int,
    data: bytes,
    sick: tuple[int, ...],
    why: str,
) -> None:
    told = gpus(node)
    lie(node, function, gpu, at, data)
    wanted = {told[index] for index in sick}
    eventually(lambda: h.sick(node) == wanted)
    eventually(lambda: any(why in one for one in reasons(node).values()))
    time.sleep(0.7)
    assert h.sick(node) == wanted
    with running.plugin_channel(node) as ask:
        assert [ask(told[index]) for index in {0, 1} - set(sick)] == [""] * len({0, 1} - set(sick))


def test_what_is_odd_and_nothing_is_made_of_is_borne(node: Node) -> None:
    for one in HARMLESS:
        lie(node, *one)
    time.sleep(1.5)
    assert not h.sick(node)
    assert len(h.health(node)) == 3
    node.sim.ctl("called")
    eventually(lambda: node.sim.ctl("called"))  # it still looks


@pytest.mark.parametrize("liar", [0, 1])
def test_a_gpu_with_the_uuid_of_another_takes_nothing_from_it(node: Node, liar: int) -> None:
    told = gpus(node)
    honest = 1 - liar
    data = f"{told[honest]}\0".encode().hex()
    node.sim.ctl("lie", function=UUID, at=1, data=data, gpu=str(liar))
    eventually(lambda: h.sick(node) == {told[liar]})
    time.sleep(1.0)
    assert h.sick(node) == {told[liar]}
    assert "gives another GPU's UUID" in reasons(node)[told[liar]]


def test_a_name_that_is_no_text_hides_no_gpu(node: Node) -> None:
    node.sim.ctl("lie", function="nvmlDeviceGetName", at=1, data=b"\xff\xfe\0".hex(), gpu="1")
    h.open_again(node)
    time.sleep(2.5)
    assert not h.sick(node)
    assert "the GPUs can't be looked at" not in node.logged()


def test_a_mig_handle_of_an_instance_that_is_gone(node: Node) -> None:
    data = struct.pack("<Q", GONE).hex()
    node.sim.ctl("lie", function="nvmlDeviceGetMigDeviceHandleByIndex", at=2, data=data, gpu="2")
    eventually(lambda: node.ask("resources")[MIG]["devices"] == {})
    assert set(node.health(GPU).values()) == {"Healthy"}


SOME = [(MEMORY, 10), (MEMORY, 15), (UUID, 999), ("nvmlDeviceGetTotalEccErrors", 999)]
EVERY = [(name, code) for name in h.EACH_LOOK for code in (2, 10, 15, 16, 999)]
RARELY = pytest.mark.endurance


@pytest.mark.parametrize(
    ("function", "code"), SOME + [pytest.param(*one, marks=RARELY) for one in EVERY]
)
def test_an_error_in_the_midst_of_a_look_concerns_one_gpu(
    node: Node, function: str, code: int
) -> None:
    """What a GPU does not tell of its memory is no fault of its own, unless it is lost."""
    node.sim.ctl("fault", gpu="1", function=function, code=code)
    unfit = code in (15, 16) or function not in h.EACH_LOOK[4:]
    wanted = {gpus(node)[1]} if unfit else set()
    eventually(lambda: h.sick(node) == wanted)
    time.sleep(0.5)
    assert h.sick(node) == wanted


@pytest.mark.parametrize(("function", "code"), [(h.OF_NO_GPU[0], 10), (h.OF_NO_GPU[1], 999)])
def test_an_error_of_the_driver_as_a_whole_concerns_all(
    node: Node, function: str, code: int
) -> None:
    node.sim.ctl("fault", gpu="all", function=function, code=code)
    eventually(lambda: h.sick(node) == set(gpus(node)))
    assert all("NVML failed while" in one for one in eventually(lambda: reasons(node)).values())
