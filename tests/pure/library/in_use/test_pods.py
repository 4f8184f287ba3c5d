# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From a process to its pod."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.kubelet.pods import name_of, uid_of

UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-1.scope",
        f"0::/kubepods/besteffort/pod{UID}/1234",
        f"12:cpuset:/\n11:memory:/kubepods/pod{UID}/1234\n",
    ],
)
def test_pod_is_found_with_every_cgroup_driver(cgroup: str) -> None:
    assert uid_of(cgroup) == UID


@pytest.mark.parametrize("cgroup", [None, "", "0::/user.slice/user-0.slice", f"0::/pod{UID}"])
def test_process_outside_of_pods(cgroup: str | None) -> None:
    assert uid_of(cgroup) == ""


def test_name_comes_from_the_log_folders() -> None:
    folders = [
        "kube-system_proxy-x_11111111-aaaa-bbbb-cccc-0123456789ab",
        f"ml_train-0_{UID}",
        "odd",
    ]
    assert name_of(UID, folders) == "ml/train-0"
    assert name_of(UID, []) == UID
