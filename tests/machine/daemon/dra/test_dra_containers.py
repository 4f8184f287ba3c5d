# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Containers with several devices, where HAMi-core limits shares."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from nvsim.testing import PROJECT
from standin_kubelet.dra import DraError

from tests.fakes.dra.driving import DRIVER, DraNode, MakeDra
from tests.fakes.mps.mps_running import ROOTS_ALONE
from tests.support.folder import elsewhere

LIBRARY = "/usr/local/vgpu/libvgpu.so"


@pytest.fixture
def node(make_dra: MakeDra) -> DraNode:
    if os.geteuid() != 0:
        pytest.skip("the library has to be root's")
    folder = elsewhere(ROOTS_ALONE, "h-")
    folder.chmod(0o755)
    shutil.copy(PROJECT / "build/libnvidia-ml.so.1", folder / "libvgpu.so")
    node = make_dra(2)
    link = Path(node.sim.root, LIBRARY[1:])
    link.parent.mkdir(parents=True)
    link.symlink_to(folder / "libvgpu.so")
    node.start(f"{{enforcement: hami-core, hamiCore: {{library: {LIBRARY}}}}}")
    return node


@pytest.mark.parametrize(
    ("first", "second"), [("gpu-0-share", "gpu-1-share"), ("gpu-0", "gpu-1-share")]
)
def test_devices_of_two_claims_are_not_given_to_one_container(
    node: DraNode, first: str, second: str
) -> None:
    claims = node.claims_of_one_container(first, second)
    with pytest.raises(DraError, match="HAMi-core limits the GPUs of one claim"):
        node.kubelet.start_pod(DRIVER, node.pods["first"], *claims)
    assert len(node.kept()) == 1


def test_a_gpu_without_a_limit_is_not_given_with_a_share(node: DraNode) -> None:
    with pytest.raises(DraError, match="all of which have to be shares"):
        node.start_pod(node.claim("both", "gpu-0", "gpu-1-share"))
    assert node.kept() == {}


def test_shares_of_one_claim_that_are_alike_have_a_limit_each(node: DraNode) -> None:
    claim = node.claim("both", "gpu-0-share", "gpu-1-share")
    node.start_pod(claim)
    edits = [device["containerEdits"]["env"] for device in node.spec(claim)["devices"]]
    assert all("CUDA_DEVICE_MEMORY_LIMIT_1=10000m" in env for env in edits)


def test_a_gpu_of_the_device_plugin_is_not_given_with_a_share(node: DraNode) -> None:
    claim = node.claim("one", "gpu-0-share")
    (name,) = node.api.pods
    pod = node.api.pods[name]
    resources = {"claims": [{"name": "gpu"}], "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "resources": resources}
    named = [{"name": "gpu", "resourceClaimName": "one"}]
    spec = {**pod["spec"], "containers": [container], "resourceClaims": named}
    node.api.pods[name] = {**pod, "spec": spec}
    with pytest.raises(DraError, match=r"nvidia\.com/gpu of the device plugin"):
        node.start_pod(claim)
