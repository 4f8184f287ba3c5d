# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A user names the cgroups below his own: his process is not taken for a pod's, nor for the driver's."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.kubelet.pods import uid_of

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
OTHER = "11111111-2222-3333-4444-555555555555"
SLICE = (
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
)


@pytest.mark.attack("cgroup-taken-for-a-pod")
@pytest.mark.parametrize(
    "path",
    [
        f"/user.slice/user-1000.slice/user@1000.service/{SLICE}/x.scope",
        f"/user.slice/user-1000.slice/kubepods/burstable/pod{UID}/1",
        f"/system.slice/mine.service/{SLICE}",
        f"/system.slice/mine.service/kubepods-burstable-pod{UID.replace('-', '_')}.slice:cri-containerd:1",
        f"/machine.slice/libpod-1.scope/kubepods/pod{UID}/1",
        f"/kubepods-mine/pod{UID}/1",
        f"/my-kubepods/pod{UID}",
        f"/kubepods/pod{UID}x/1",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
        f"/../../{SLICE}",
    ],
)
@pytest.mark.parametrize("line", ["0::{}", "4:memory:{}", "1:name=systemd:{}\n0::/"])
def test_path_that_no_kubelet_makes_is_no_pod(path: str, line: str) -> None:
    assert uid_of(line.format(path), "0::/init.scope") == ""


GUARANTEED = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-1.scope"
KIND = SLICE.replace("kubepods", "kubelet-kubepods")


@pytest.mark.attack("cgroup-taken-for-a-pod")
@pytest.mark.parametrize(
    ("path", "init"),
    [
        (f"/{SLICE}/cri-containerd-1.scope", "/init.scope"),
        (f"/{SLICE}/cri-containerd-1.scope/kubepods/pod{OTHER}", "/init.scope"),
        (f"/{GUARANTEED}", "/"),
        (f"/kubepods/besteffort/pod{UID}/1", "/init.scope"),
        (f"/kubepods/pod{UID}/1", ""),
        (f"/kubelet.slice/{KIND}/cri-containerd-1.scope", "/init.scope"),
        (f"/kubelet/kubepods/burstable/pod{UID}/1", "/init.scope"),
        (f"/docker/5ca1e/kubelet/kubepods/burstable/pod{UID}/1", "/docker/5ca1e"),
        (
            f"/system.slice/docker-5ca1e.scope/{SLICE}/x",
            "/system.slice/docker-5ca1e.scope/init.scope",
        ),
        (f"/docker/5ca1e/kubepods/pod{UID}/1", "/docker/5ca1e/init"),
        (
            "/system.slice/containerd.service/"
            f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice:cri-containerd:5ca1e",
            "/init.scope",
        ),
    ],
)
def test_pods_of_every_kubelet_are_found(path: str, init: str) -> None:
    assert uid_of(f"0::{path}\n", f"0::{init}\n") == UID
    lines = f"12:cpuset:/\n4:memory:{path}\n1:name=systemd:{path}\n0::/\n"
    assert uid_of(lines, f"12:cpuset:/\n4:memory:{init}\n1:name=systemd:{init}\n0::/\n") == UID
