# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What HAMi-core reads for any shares, and which bytes are a library."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.dra.enforcement.hami_core import HEADER, MACHINES, MIB, environment, header_problem
from gpu_plugin.dra.values import Share
from grpc._cython import cygrpc
from hypothesis import given
from hypothesis import strategies as st

GPU = "GPU-00000000-0000-0000-0000-000000000000"
OTHER = "GPU-11111111-0000-0000-0000-000000000000"


def share(gpu: str = GPU, memory: int = 3000 * MIB, cores: int = 0) -> Share:
    return Share("c1", gpu, 0, memory, cores)


@pytest.mark.attack("library-of-a-tenant")
@given(st.binary(max_size=64))
def test_any_bytes_are_a_library_or_not(data: bytes) -> None:
    machine = platform.machine()
    good = data[:6] == b"\x7fELF\x02\x01" and data[16:20] == bytes((3, 0)) + MACHINES[
        machine
    ].to_bytes(2, "little")
    assert (header_problem(data[: HEADER.size], machine) == "") == good


def test_this_machines_libraries_are_libraries_and_no_other_machines() -> None:
    header = Path(cygrpc.__file__).read_bytes()[: HEADER.size]
    assert header_problem(header, platform.machine()) == ""
    assert header_problem(header, "riscv64") == "is not built for riscv64"


SHARES = st.builds(
    share, gpu=st.sampled_from((GPU, OTHER)), memory=st.integers(MIB, 1 << 45), cores=st.integers(0, 200)
)  # fmt: skip


@given(st.lists(SHARES, min_size=1, max_size=3))
def test_limits_are_never_more_than_the_shares(shares: list[Share]) -> None:
    alike = len({(one.memory, one.cores) for one in shares}) == 1
    if not alike or len({one.gpu_uuid for one in shares}) < len(shares):
        with pytest.raises(NodeError, match="HAMi-core can't limit"):
            environment(shares, scaled=False)
        return
    env = environment(shares, scaled=False)
    limits = [env[f"CUDA_DEVICE_MEMORY_LIMIT_{n}"] for n in range(len(shares))]
    for one, limit in zip(shares, limits, strict=True):
        assert int(limit.removesuffix("m")) * MIB <= one.memory
    assert int(env.get("CUDA_DEVICE_SM_LIMIT", 0)) == min(100, shares[0].cores)
    assert "CUDA_OVERSUBSCRIBE" not in env


def test_shares_whose_numbers_would_matter_are_refused() -> None:
    with pytest.raises(NodeError, match="2 shares of a claim differ"):
        environment([share(), share(gpu=OTHER, memory=MIB)], scaled=False)
    with pytest.raises(NodeError, match="2 shares of a claim are of one GPU"):
        environment([share(), share()], scaled=False)
    with pytest.raises(NodeError, match="a share of 5 bytes"):
        environment([share(memory=5)], scaled=False)
