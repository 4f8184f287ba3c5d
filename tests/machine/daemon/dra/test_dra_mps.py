# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A share from its claim to a client's variables, with NVIDIA's genuine control program of MPS."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nvsim import genuine
from standin_kubelet.dra import DraError

from tests.fakes.dra.driving import DRIVER, DraNode, MakeDra
from tests.support.folder import elsewhere
from tests.support.waiting import eventually


@pytest.fixture
def mps_root() -> Iterator[Path]:
    """A folder in which root alone can put the daemons' root."""
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    folder = elsewhere("/var/lib", "m-")
    yield folder / "r"
    shutil.rmtree(folder, ignore_errors=True)


def mode(node: DraNode) -> int:
    return int(node.sim.ctl("status")["gpus"][0]["compute_mode"])


def start(node: DraNode, mps_root: Path) -> None:
    node.env["PATH"] = f"{genuine.mps_control().parent}:{os.environ['PATH']}"
    node.env["MPS_ROOT"] = str(mps_root)
    node.start("{enforcement: mps}", "--mps-managers", "own")


def test_a_share_has_its_limits_by_mps_and_the_daemon_ends_with_the_last(
    make_dra: MakeDra, mps_root: Path
) -> None:
    node = make_dra(1)
    before = mode(node)
    start(node, mps_root)
    kind = {"apiVersion": "gpu.node/v1", "kind": "ShareConfig"}
    first = node.claim("first", "gpu-0-share", parameters={**kind, "priority": 1})
    second = node.claim("second", "gpu-0-share", parameters={**kind, "coreLimit": False})
    node.start_pod(first)
    node.start_pod(second)
    gpu = node.uuids()[0]
    env = [dict(one.split("=", 1) for one in node.edits(claim)["env"]) for claim in (first, second)]
    assert env[0].pop("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").endswith("=10000M")
    assert env[0] == {
        "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
    }
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in env[1]
    assert (mps_root / gpu).is_dir()
    assert mode(node) != before
    node.end_pod(first)
    assert mode(node) != before
    node.end_pod(second)
    eventually(lambda: mode(node) == before)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("gpu-0-share", "gpu-1-share"),
        ("gpu-0", "gpu-1-share"),
        ("gpu-0-share", "gpu-1"),
        ("gpu-0-mig-1g10gb-19-3", "gpu-1-share"),
    ],
)
def test_a_container_with_a_share_has_no_other_device(
    make_dra: MakeDra, mps_root: Path, first: str, second: str
) -> None:
    """The kubelet has both prepared by one call, and does not say which containers use them."""
    node = make_dra(2)
    if "mig" in first:
        node.mig_mode(0)
    start(node, mps_root)
    claims = node.claims_of_one_container(first, second)
    with pytest.raises(DraError, match="can't be given to container main together"):
        node.kubelet.start_pod(DRIVER, node.pods["first"], *claims)
    assert len(node.kept()) == 1
    node.kubelet.end_pod(DRIVER, node.pods["first"])
    assert node.kept() == {}


def test_a_claim_of_a_gpu_and_a_share_is_refused(make_dra: MakeDra, mps_root: Path) -> None:
    node = make_dra(2)
    start(node, mps_root)
    with pytest.raises(DraError, match=r"gpu-0 of claim .*, gpu-1-share of claim"):
        node.start_pod(node.claim("both", "gpu-0", "gpu-1-share"))
    assert node.kept() == {}
