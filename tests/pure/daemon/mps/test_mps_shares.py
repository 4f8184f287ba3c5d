# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is decided about MPS: shares, words of the control program, what containers get."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from gpu_plugin._shared._base.errors import InputError, NodeError
from gpu_plugin.model.mps.paths import Names, daemon_environment, settings_file
from gpu_plugin.model.mps.settings import (
    MIB,
    Bounds,
    Offer,
    Percent,
    Settings,
    Shares,
    client_limit,
    parse_memory,
    parse_percent,
)
from gpu_plugin.mps import protocol
from hypothesis import given
from hypothesis import strategies as st

from tests.support.refusals import refused_otherwise

GIB = 1024 * MIB
HOPPER, VOLTA, PASCAL, BLACKWELL = (9, 0), (7, 0), (6, 1), (10, 0)
UUID = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
MIG = "MIG-4cf8db2d-06c0-5d70-8a51-e59b25b2c16c"
BOUNDS = st.builds(
    Bounds, st.integers(1, 300_000), st.integers(1, 1000).map(lambda tenths: tenths / 10)
)


def plan(
    replicas: int, total: int, capability: tuple[int, int], *, most: int = 1, **asked: Any
) -> Shares:
    return Settings(replicas, combine=most, **asked).shares(total, capability)


@given(st.integers(1, 48), st.integers(GIB, 300 * GIB))
def test_equal_shares_are_all_of_the_device_and_never_more(replicas: int, total: int) -> None:
    shares = plan(replicas, total, HOPPER, most=replicas)
    assert shares.of(replicas) == Bounds(total // MIB, 100.0)
    each = [shares.of(count) for count in range(1, replicas + 1)]
    for count, bounds in enumerate(each, 1):
        assert bounds.memory_mib == total * count // replicas // MIB
        assert bounds.threads == 1000 * count // replicas / 10
    assert each[0].memory_mib * replicas * MIB <= total
    assert each[0].threads * replicas <= 100.0001
    for less, more in pairwise(each):
        assert less.memory_mib + each[0].memory_mib <= more.memory_mib
        assert less.threads < more.threads


@pytest.mark.parametrize(
    ("capability", "slices", "limit"),
    [
        (HOPPER, (1, 1), 48),
        (HOPPER, (7, 7), 48),
        (HOPPER, (3, 7), 20),
        (HOPPER, (1, 7), 6),
        (BLACKWELL, (1, 7), 8),
        ((8, 0), (1, 4), 12),
    ],
)
def test_a_mig_device_takes_its_part_of_the_clients(
    capability: tuple[int, int], slices: tuple[int, int], limit: int
) -> None:
    assert Settings(limit).shares(20 * GIB, capability, slices).replicas == limit
    with pytest.raises(
        NodeError, match=f"from 1 to {limit} clients on its architecture"
    ) as refused:
        Settings(limit + 1).shares(20 * GIB, capability, slices)
    part = f", with {slices[0]} of {slices[1]} slices"
    assert str(refused.value.cause).endswith(part) is (slices[0] < slices[1])


@given(st.integers(2, 48), st.integers(1, 100), st.integers(1, 100))
def test_shares_of_a_given_size_are_refused_when_they_dont_add_up(
    replicas: int, memory: int, threads: int
) -> None:
    words_ = {"memory": Percent(Decimal(memory)), "threads": Percent(Decimal(threads))}
    fits = replicas * memory <= 100 and replicas * threads <= 100
    if fits:
        assert plan(replicas, 80 * GIB, HOPPER, **words_).of(1).threads == threads
    else:
        with pytest.raises(NodeError, match=r"more (memory|threads) than the device"):
            plan(replicas, 80 * GIB, HOPPER, **words_)
        free = plan(replicas, 80 * GIB, HOPPER, overcommit=True, **words_)
        assert free.of(1) == Bounds(80 * 1024 * memory // 100, float(threads))


def test_memory_is_in_bytes_or_percent() -> None:
    def read(text: str) -> Shares:
        return plan(4, 80 * GIB, HOPPER, memory=parse_memory(text))

    sizes = {"8589934592": 8192, "8GiB": 8192, "8G": 8192, "1500M": 1500, "12.5%": 10240}
    assert {text: read(text).of(1).memory_mib for text in sizes} == sizes
    texts = ("8X", "-1", "0", "101%", "0%", "1000", " 8G", "8 GiB", "nan%")
    assert refused_otherwise(read, ((text, "memory") for text in texts), InputError) == []


def test_threads_are_percent() -> None:
    def read(text: str) -> Shares:
        return plan(4, 80 * GIB, HOPPER, threads=parse_percent("threads", text))

    texts = ("0", "100.1", "-5", "1e1", "0.01", "x")
    assert refused_otherwise(read, ((text, "threads") for text in texts), InputError) == []


def test_no_more_clients_than_the_architecture_takes() -> None:
    limits = {PASCAL: 16, VOLTA: 48, (7, 5): 48, (8, 9): 48, HOPPER: 48, BLACKWELL: 60, (12, 0): 60}
    for capability, limit in limits.items():
        assert client_limit(capability) == limit
        assert plan(limit, 80 * GIB, capability).replicas == limit
        with pytest.raises(NodeError, match=f"from 1 to {limit} clients"):
            plan(limit + 1, 80 * GIB, capability)


def test_servers_for_all_users_are_of_volta_and_newer() -> None:
    assert plan(4, 80 << 30, VOLTA, multi_user=True) == plan(4, 80 << 30, VOLTA)
    with pytest.raises(NodeError, match=r"multiUser can't be had .* it has 6\.1"):
        plan(4, 80 << 30, PASCAL, multi_user=True)


def test_default_bounds_a_client_that_drops_its_own_and_leaves_room_for_combined_shares() -> None:
    assert plan(4, 80 * GIB, HOPPER).default == Bounds(20480, 25.0)
    shares = plan(4, 80 * GIB, HOPPER, most=3)
    assert shares.default == shares.of(3) == Bounds(61440, 75.0)
    with pytest.raises(NodeError, match="4 shares of one device"):
        shares.of(4)
    with pytest.raises(NodeError, match="0 shares of one device"):
        shares.of(0)
    with pytest.raises(InputError, match="combine"):
        plan(4, 80 * GIB, HOPPER, most=5)


def test_one_container_never_has_more_memory_than_the_device() -> None:
    with pytest.raises(NodeError, match="2 shares have more memory"):
        plan(4, 80 * GIB, HOPPER, memory=parse_memory("60%"), most=2, overcommit=True)


@given(BOUNDS)
def test_settings_confirm_what_the_program_answers_to_them(bounds: Bounds) -> None:
    mib = bounds.memory_mib
    told = f"{mib}M" if mib < 1024 else f"{mib // 1024}G"  # as the genuine program was seen to do
    memory, threads = protocol.settings(bounds)
    assert protocol.check(memory, f"{told}\n") == told
    assert protocol.check(threads, f"{bounds.threads}\n") == str(bounds.threads)
    answer = f"12\n345\n{bounds.threads}\n{told}\n"
    assert protocol.polled(answer, bounds) == ((12, 345), True)
    assert protocol.polled(f"{bounds.threads}\n{told}\n", bounds) == ((), True)
    assert protocol.polled(f"7\n{bounds.threads}\n", bounds) == ((7,), False)


@given(BOUNDS, st.integers(1, 300_000), st.integers(1, 1000))
def test_other_limits_are_told_from_those_asked(bounds: Bounds, mib: int, tenths: int) -> None:
    memory, threads = protocol.settings(bounds)
    told = f"{mib}M" if mib < 1024 else f"{mib // 1024}G"
    same = min(mib, 1024) == min(bounds.memory_mib, 1024) and (
        mib < 1024 or mib // 1024 == bounds.memory_mib // 1024
    )
    if not same:
        with pytest.raises(protocol.ControlError, match="was asked for"):
            protocol.check(memory, told)
    if tenths / 10 != bounds.threads:
        with pytest.raises(protocol.ControlError, match="was asked for"):
            protocol.check(threads, str(tenths / 10))
        assert protocol.polled(f"{tenths / 10}\n{told}\n", bounds)[1] is False


def test_a_servers_own_limits_have_its_number() -> None:
    bounds = Bounds(2048, 50.0)
    assert [one.set for one in protocol.settings(bounds, 570)] == [
        "set_device_pinned_mem_limit 570 0 2048M",
        "set_active_thread_percentage 570 50.0",
    ]
    asked = ["get_client_list 570", "get_active_thread_percentage 570"]
    assert protocol.poll(570).splitlines() == [*asked, "get_device_pinned_mem_limit 570 0"]
    assert protocol.polled("568\n567\n50.0\n2G\n", bounds) == ((568, 567), True)
    assert protocol.polled("568\n567\n50.0\n40G\n", bounds) == ((568, 567), False)
    assert protocol.polled("568\n567\n10.0\n2G\n", bounds) == ((568, 567), False)
    assert protocol.gone("Server 570 not found\n" * 3)


def test_answers_that_are_no_limit_are_refused() -> None:
    memory = next(iter(protocol.settings(Bounds(10240, 50.0))))
    for answer in ("", "None", "10", "10.5G", "-1G"):
        with pytest.raises(protocol.ControlError, match="was not taken"):
            protocol.check(memory, answer)


def test_refusals_are_seen_though_the_program_ends_well() -> None:
    assert protocol.refusal('Unknown command "lsdev"\n') == 'Unknown command "lsdev"'
    assert protocol.refusal("12\n345\n") == ""
    assert protocol.pids("12\n345\n") == (12, 345)
    assert protocol.pids("") == ()
    with pytest.raises(protocol.ControlError, match="Server not found"):
        protocol.pids("Server not found")
    assert protocol.gone("Server 12 not found\n")
    assert not protocol.gone("12\n")


def test_answers_that_were_lost_are_told_from_empty_ones() -> None:
    assert protocol.question("get_server_list").endswith("\nget_default_active_thread_percentage\n")
    assert protocol.answer("25.0\n") == ""
    assert protocol.answer("12\n19G\n25.0\n") == "12\n19G\n"
    for lost in ("", "19G\n", "Server not found\n"):
        assert protocol.answer(lost) is None


def test_log_without_the_traces_of_our_own_questions() -> None:
    stamp = "[2026-11-21 09:03:11.379 Control 30730] "
    for line in ("NEW UI", "Cmd:get_client_list 12", "Cmd:get_server_list", "33.3", "19G"):
        assert protocol.event(f"{stamp}{line}\n") == ""
    for line in ("Starting new server 2 for user 0", "Cmd:quit", "Server 2 exited with status 1"):
        assert protocol.event(f"{stamp}{line}\n") == line


def test_what_a_container_gets() -> None:
    names, asked = Names(UUID), Settings(8, combine=2)
    got = Offer(names, asked, asked.shares(80 * GIB, HOPPER)).part(2)
    assert got.envs == {
        "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=20480M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
    }
    assert got.mounts == (
        ("/tmp/nvidia-mps", f"/run/gpu-node/mps/{UUID}/ipc/pipe", True),
        ("/dev/shm", f"/run/gpu-node/mps/{UUID}/shm", False),
    )
    shared = Offer(names, asked, asked.shares(80 * GIB, HOPPER), own_shm=False).part(1)
    assert shared.envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "12.5"
    assert shared.mounts[1] == ("/dev/shm", "/dev/shm", False)


def test_paths_are_by_uuid() -> None:
    for uuid in (UUID, MIG):
        environment = daemon_environment(Names(uuid), "/own")
        assert environment["CUDA_VISIBLE_DEVICES"] == uuid
        assert environment["CUDA_MPS_PIPE_DIRECTORY"] == "/own"
        assert settings_file(uuid) == f"/run/gpu-node/mps/{uuid}.settings.json"
    for wrong in ("0", "GPU-1", f"{UUID}/..", "../../etc", f"MIG-{UUID}/1/0", ""):
        with pytest.raises(InputError, match="device"):
            Names(wrong)
    with pytest.raises(InputError, match="shorter path"):
        Names(UUID, f"/run/{'x' * 60}")
