# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A share of a GPU under MPS: the daemon's settings, and the variables and mounts of its containers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..._shared._base.dra.names import DRA
from ..._shared._base.errors import NodeError
from ...model.mps.settings import VOLTA, Offer, Percent, Settings, client_limit
from ...model.quantity import MIB
from ..values import Edits, Mount, Share

PIPE: Final = "CUDA_MPS_PIPE_DIRECTORY"
MEMORY: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
THREADS: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
PRIORITY: Final = "CUDA_MPS_CLIENT_PRIORITY"
# By its index: clients see the one device that their daemon sees. A key that a driver does not take,
# as some take no UUID, would lift every limit.
ONLY_DEVICE: Final = 0
READ_ONLY: Final = Mount("", "").options
READ_WRITE: Final = tuple("rw" if option == "ro" else option for option in READ_ONLY)


def settings(root: str, *, multi_user: bool) -> Settings:
    """Return the settings of a GPU's daemon for claims, each of which has limits of its own.

    The defaults are the whole GPU, which is what a client has that drops its variables.
    """
    return Settings(
        1, Percent.whole(), Percent.whole(), multi_user=multi_user, root=root, owner=DRA
    )


def only(shares: Sequence[Share]) -> Share:
    """Return the share of a claim.

    Raises:
        NodeError: if it has several, which MPS can't give to one container.
    """
    if len(shares) == 1:
        return shares[0]
    gpus = len({share.gpu_uuid for share in shares})
    where = f"of {gpus} GPUs" if gpus > 1 else "of one GPU"
    raise NodeError(
        f"{len(shares)} shares {where} can't be given to one claim under mps",
        cause="each GPU has an MPS control daemon of its own, and a container is the client of one, once",
        hint="ask for one share a claim and container, or set gpuNode.dra.enforcement to another one",
    )


def edits(share: Share, offer: Offer) -> Edits:
    """Return what makes a claim's containers clients of its GPU's daemon, with its limits.

    A limit above the GPU's memory is the GPU's memory.

    Raises:
        NodeError: if the share is less than MPS can limit.
    """
    part = offer.part(1)
    mib = min(share.memory // MIB, offer.shares.default.memory_mib)
    if mib < 1:
        raise NodeError(f"a share of {share.memory} bytes can't be had", cause="MPS limits MiB")
    env = {PIPE: part.envs[PIPE], MEMORY: f"{ONLY_DEVICE}={mib}M"}
    if share.cores:
        env[THREADS] = str(min(share.cores, 100))
    if share.priority:
        env[PRIORITY] = str(share.priority)
    mounts = (
        Mount(mount.outside, mount.inside, READ_ONLY if mount.read_only else READ_WRITE)
        for mount in part.mounts
    )
    return Edits(env, tuple(mounts))


def problem_of(split_count: int, compute_capability: tuple[int, int]) -> str:
    """Return why a GPU of an architecture can't be shared by MPS like this, empty if it can."""
    capability = ".".join(map(str, compute_capability))
    if compute_capability < VOLTA:
        return f"MPS limits memory from compute capability 7.0 (Volta) on, and it has {capability}"
    limit = client_limit(compute_capability)
    if split_count > limit:
        return (
            f"gpuNode.dra.splitCount is {split_count}, and an MPS server takes {limit} clients"
            f" on compute capability {capability}"
        )
    return ""
