# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The load test's process on a stand-in for libcuda that runs its kernels from their PTX.

The kernels were assembled by NVIDIA's ptxas 12.9 for sm_50 to sm_120. No GPU has run them in these tests.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept import kernels
from ansible_collections.gpu.node.plugins.module_utils._accept.machine import load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

VALUES = {"float": kernels.FMAS, "tensor": 32}  # that a thread computes in an iteration
ITERATIONS = 2
BAD_MULTIPROCESSOR = 3


@pytest.fixture(autouse=True)
def cuda(libcuda: Path, monkeypatch: pytest.MonkeyPatch) -> load.Cuda:
    """Return the driver of a machine with two small GPUs."""
    ctypes.CDLL(str(libcuda / "libcuda.so.1"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2")
    monkeypatch.setenv("NODE_CUDA_MULTIPROCESSORS", "4")
    monkeypatch.setenv("NODE_CUDA_MEMORY", "1")
    monkeypatch.setattr(load, "FIRST_ITERATIONS", ITERATIONS)
    monkeypatch.setattr(load, "SPARE", 0)
    return load.Cuda()


@pytest.fixture
def device(cuda: load.Cuda) -> load.Device:
    return load.Device(cuda, 0)


@pytest.mark.parametrize("kernel", ["float", "tensor"])
def test_all_multiprocessors_agree(device: load.Device, kernel: str) -> None:
    measured = load.compute(device, kernel, 0)
    assert (measured["multiprocessors"], measured["expected"]) == (4, 4)
    assert (measured["rounds"], measured["wrong_words"]) == (1, {})


@pytest.mark.parametrize("kernel", ["float", "tensor"])
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_one_wrong_bit_at_any_time_is_seen(
    device: load.Device, monkeypatch: pytest.MonkeyPatch, kernel: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, VALUES[kernel] * ITERATIONS - 1))
    bit = data.draw(st.integers(0, 31))
    monkeypatch.setenv("NODE_CUDA_AT", str(at))
    monkeypatch.setenv("NODE_CUDA_BIT", str(bit))
    monkeypatch.setenv("NODE_CUDA", "bit")
    assert set(load.compute(device, kernel, 0)["wrong_words"]) == {BAD_MULTIPROCESSOR}


def test_multiprocessor_with_other_words_than_most_is_wrong() -> None:
    assert load.count_wrong([0, 1, 2], [5, 6, 5, 6, 5, 7]) == {2: 1}
    assert load.count_wrong([0, 1], [5, 6, 5, 6]) == {}


def test_stuck_bit_of_memory_is_counted(
    device: load.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = load.verify_memory(device)
    assert (healthy["wrong"], healthy["bits"]) == (0, 0)
    assert 0 < healthy["bytes"] <= 1 << 20
    monkeypatch.setenv("NODE_CUDA", "cell")
    broken = load.verify_memory(device)
    assert broken["wrong"] > 0
    assert broken["bits"] == 1 << 7


@pytest.mark.parametrize(("fault", "outcome"), [("no_peers", "absent"), ("", "gb_per_s")])
def test_links_between_gpus(
    cuda: load.Cuda, monkeypatch: pytest.MonkeyPatch, fault: str, outcome: str
) -> None:
    monkeypatch.setenv("NODE_CUDA", fault)
    source, target = (load.Buffer(load.Device(cuda, ordinal)) for ordinal in (0, 1))
    assert source.size != target.size  # what of a larger one was not copied is not wrong
    for pair in ((source, target), (target, source)):
        measured = load.measure_peer(*pair)
        assert outcome in measured
        assert not measured.get("wrong")


def test_host_is_measured_where_its_near_cpus_are_not_allowed(device: load.Device) -> None:
    assert load.measure_host(load.Buffer(device), (4095,))["wrong"] == 0


def test_copies_that_lose_words_are_wrong(
    device: load.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = load.Buffer(device)
    assert load.measure_host(buffer, ())["wrong"] == 0
    monkeypatch.setattr(type(device), "bandwidth", lambda *_args: 1.0)  # nothing is copied
    assert load.measure_host(buffer, ())["wrong"] > 0


def test_outcome_follows_each_part_that_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load.main(json.dumps({"gpus": ["GPU-1"], "seconds": 0}))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["part"] for line in lines if line.get("begun")] == [
        "start",
        "float",
        "tensor",
        "memory",
        "bandwidth",
    ]
    assert all(
        first["part"] == second["part"]
        for first, second in zip(lines[::2], lines[1::2], strict=True)
    )
