# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containers get under MPS, for any share."""

from __future__ import annotations

from fractions import Fraction

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.dra.enforcement.mps_share import edits, only, problem_of, settings
from gpu_plugin.dra.values import Share
from gpu_plugin.model.mps.paths import Names
from gpu_plugin.model.mps.settings import MIB, Offer, Shares, client_limit, from_json
from hypothesis import given
from hypothesis import strategies as st

GPU = "GPU-00000000-0000-0000-0000-000000000000"
OTHER = "GPU-11111111-0000-0000-0000-000000000000"
WHOLE = 32768


def offer(own_shm: bool = True) -> Offer:
    shares = Shares(1, Fraction(WHOLE * MIB), Fraction(100))
    return Offer(Names(GPU), settings("/run/gpu-node/mps", multi_user=True), shares, own_shm)


SHARES = st.builds(
    Share,
    claim=st.uuids().map(str),
    gpu_uuid=st.just(GPU),
    minor=st.integers(0, 15),
    memory=st.integers(MIB, 1 << 50),
    cores=st.integers(0, 400),
    priority=st.sampled_from((0, 1)),
)


@given(SHARES)
def test_no_variable_says_more_than_the_share_or_the_gpu_has(share: Share) -> None:
    env = edits(share, offer()).env
    device, _equals, size = env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"].partition("=")
    mib = int(size.removesuffix("M"))
    assert (device, size[-1]) == ("0", "M")
    assert 1 <= mib <= WHOLE
    assert mib * MIB <= share.memory < (mib + 1) * MIB or mib == WHOLE
    threads = env.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    assert (threads is None) == (share.cores == 0)
    assert threads is None or 1 <= int(threads) <= min(100, share.cores)
    assert env.get("CUDA_MPS_CLIENT_PRIORITY", "0") == str(share.priority)


@given(SHARES, st.booleans())
def test_mounts_are_those_of_the_gpus_daemon(share: Share, own_shm: bool) -> None:
    pipe, shm = edits(share, offer(own_shm)).mounts
    assert (pipe.host_path, pipe.container_path) == (
        f"/run/gpu-node/mps/{GPU}/ipc/pipe",
        "/tmp/nvidia-mps",
    )
    assert "ro" in pipe.options
    assert "rw" in shm.options
    assert shm.host_path == (f"/run/gpu-node/mps/{GPU}/shm" if own_shm else "/dev/shm")


@given(st.integers(0, MIB - 1))
def test_less_than_a_mebibyte_is_no_share(memory: int) -> None:
    with pytest.raises(NodeError, match=f"a share of {memory} bytes can't be had"):
        edits(Share("c", GPU, 0, memory, 0), offer())


@given(st.lists(st.sampled_from((GPU, OTHER)), min_size=2, max_size=8))
def test_several_shares_of_a_claim_are_refused_with_what_to_do(uuids: list[str]) -> None:
    shares = [Share("c", uuid, 0, MIB, 0, share_id=str(at)) for at, uuid in enumerate(uuids)]
    where = "of 2 GPUs" if len(set(uuids)) == 2 else "of one GPU"
    with pytest.raises(NodeError, match=f"{len(uuids)} shares {where} can't be given") as caught:
        only(shares)
    assert "gpuNode.dra.enforcement" in str(caught.value)


@given(st.tuples(st.integers(3, 12), st.integers(0, 9)), st.integers(1, 200))
def test_no_more_shares_than_a_server_has_clients(capability: tuple[int, int], split: int) -> None:
    why = problem_of(split, capability)
    fits = capability >= (7, 0) and split <= client_limit(capability)
    assert (why == "") == fits
    assert fits or "Volta" in why or f"gpuNode.dra.splitCount is {split}" in why


@pytest.mark.parametrize("multi_user", [True, False])
def test_the_daemons_own_limits_are_the_whole_gpus(multi_user: bool) -> None:
    asked = settings("/run/gpu-node/mps", multi_user=multi_user)
    assert from_json(asked.to_json()) == asked
    default = asked.shares(WHOLE * MIB, (8, 0)).default
    assert (default.memory_mib, default.threads) == (WHOLE, 100.0)
    assert asked.owner == "dra"
