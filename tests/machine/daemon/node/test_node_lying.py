# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drivers that say what can't be: who is concerned is unfit, and nobody else."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from nvsim import handles

from tests.support.waiting import eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.running import Node

from tests.fakes.daemon import hanging as h
from tests.fakes.daemon import running

GPU, MIG = running.GPU, h.MIG
COUNT, UUID, MEMORY = "nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"
GONE = handles.encode(handles.Handle(handles.MIG, 2, 5, 0))


@pytest.fixture(scope="module")
def shared() -> Iterator[Node]:
    """Two GPUs and a third in MIG mode, for all cases of this file."""
    with running.nodes() as make:
        node = make(3)
        node.layout(2, "1g.10gb")
        node.serve(2, "flags: {migStrategy: mixed}", "--recovery-period", "0.01")
        node.wait(MIG, 1)
        yield node


@pytest.fixture
def node(shared: Node) -> Iterator[Node]:
    h.until_well(shared)
    with h.one_process(shared):
        yield shared
        shared.sim.ctl("clear-faults")
        h.until_well(shared)


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
    told = node.uuids()
    lie(node, function, gpu, at, data)
    wanted = {told[index] for index in sick}
    h.until_sick(node, wanted)
    eventually(lambda: any(why in one for one in reasons(node).values()))
    unchanged(lambda: h.sick(node), wanted, node.looks)
    with running.plugin_channel(node) as ask:
        assert [ask(told[index]) for index in {0, 1} - set(sick)] == [""] * len({0, 1} - set(sick))


def test_what_is_odd_and_nothing_is_made_of_is_borne(node: Node) -> None:
    for one in HARMLESS:
        lie(node, *one)
    unchanged(lambda: (len(h.health(node)), h.sick(node)), (3, set()), node.looks)


@pytest.mark.parametrize("liar", [0, 1])
def test_a_gpu_with_the_uuid_of_another_takes_nothing_from_it(node: Node, liar: int) -> None:
    told = node.uuids()
    honest = 1 - liar
    data = f"{told[honest]}\0".encode().hex()
    node.sim.ctl("lie", function=UUID, at=1, data=data, gpu=str(liar))
    h.until_sick(node, [told[liar]])
    unchanged(lambda: h.sick(node), {told[liar]}, node.looks)
    assert "gives another GPU's UUID" in reasons(node)[told[liar]]


def test_a_name_that_is_no_text_hides_no_gpu(node: Node) -> None:
    node.sim.ctl("lie", function="nvmlDeviceGetName", at=1, data=b"\xff\xfe\0".hex(), gpu="1")
    node.sim.ctl("called")
    h.open_again(node)
    eventually(lambda: "nvmlDeviceGetName" in node.sim.ctl("called"))
    unchanged(lambda: h.sick(node), set(), node.looks)
    assert "the GPUs can't be looked at" not in node.logged()


def test_a_mig_handle_of_an_instance_that_is_gone(node: Node) -> None:
    data = struct.pack("<Q", GONE).hex()
    node.sim.ctl("lie", function="nvmlDeviceGetMigDeviceHandleByIndex", at=2, data=data, gpu="2")
    eventually(lambda: node.ask("resources")[MIG]["devices"] == {})
    assert set(node.health(GPU).values()) == {"Healthy"}


SOME = [(MEMORY, 10), (MEMORY, 15), (UUID, 999), ("nvmlDeviceGetTotalEccErrors", 999)]
# The bindings have them and the node's driver does not, so that no GPU answers.
LATER = {"nvmlDeviceGetRepairStatus", "nvmlDeviceGetUnrepairableMemoryFlag_v1"}
EVERY = [(name, code) for name in h.EACH_LOOK if name not in LATER for code in (2, 10, 15, 16, 999)]


@pytest.mark.parametrize(
    "errors", [SOME, pytest.param(EVERY, marks=pytest.mark.endurance)], ids=["some", "every"]
)
def test_an_error_in_the_midst_of_a_look_concerns_one_gpu(
    node: Node, errors: list[tuple[str, int]]
) -> None:
    """What a GPU does not tell of its memory is no fault of its own, unless it is lost."""
    one = node.uuids()[1]
    for function, code in errors:
        node.sim.ctl("fault", gpu="1", function=function, code=code)
        unfit = code in (15, 16) or function not in h.EACH_LOOK[4:]
        wanted = {one} if unfit else set()
        h.until_sick(node, wanted)
        unchanged(lambda: h.sick(node), wanted, node.looks)
        node.sim.ctl("clear-faults")
        h.until_well(node)


@pytest.mark.parametrize(("function", "code"), [(h.OF_NO_GPU[0], 10), (h.OF_NO_GPU[1], 999)])
def test_an_error_of_the_driver_as_a_whole_concerns_all(
    node: Node, function: str, code: int
) -> None:
    node.sim.ctl("fault", gpu="all", function=function, code=code)
    h.until_sick(node, node.uuids())
    assert all("NVML failed while" in one for one in eventually(lambda: reasons(node)).values())
