# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Pods on a real containerd see the devices that they ask for, and no others, whatever happens to the node."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import (
    CONFIGURE,
    CONTAINERD,
    FOREIGN,
    KIND_OF_NODE,
    RESTART,
    RUNTIMES,
    SPEC,
    TRUE,
    Pods,
    check_isolation,
    device_nodes,
    run_of,
    short_names,
    specification,
    with_foreign,
    write,
)
from tests.node.runtime.toolkit_standin import created, install_wrapper
from tests.support.waiting import eventually

pytestmark = [pytest.mark.node, pytest.mark.long]


def test_pods_see_what_they_ask_for(brought_up: Callable[..., Node]) -> None:
    node = brought_up("runtime", "a100-40", 2, **KIND_OF_NODE)
    assert node.play(RUNTIMES, container_runtime_state="absent").ok
    text = node.run("cat", CONTAINERD)
    assert "enable_cdi" not in text
    original = with_foreign(text)
    write(node, CONTAINERD, original)
    up = node.play(RUNTIMES)
    assert up.ok, up.message()
    assert up.changed() == [CONFIGURE, RESTART]
    assert FOREIGN in node.run("cat", CONTAINERD)
    pods = Pods(node)

    check_isolation(pods, node)

    before = run_of(node, "containerd")
    again = node.play(RUNTIMES)
    assert again.ok, again.message()
    assert again.changed() == []
    assert again.module_calls() == ["Look for NVIDIA GPUs", CONFIGURE]
    assert run_of(node, "containerd") == before

    control = {entry["path"] for entry in specification(node)[1]["deviceNodes"]}
    # Somebody changes the layout without Ansible: the specification follows, and then the pods.
    node.run("systemctl", "stop", "gpu-device-plugin")
    node.run("nvidia-smi", "mig", "-i", "1", "-dci")
    node.run("nvidia-smi", "mig", "-i", "1", "-dgi")
    eventually(lambda: short_names(node), {"0", "all"})
    assert device_nodes(pods, "all") == {"/dev/nvidia0"} | control

    # The layout that was asked for comes back at boot, and with it its specification.
    node.reboot()
    eventually(lambda: short_names(node), {"0", "1:0", "1:1", "all"})
    devices = specification(node)[0]
    assert device_nodes(pods, "1:1") == devices["1:1"] | control

    # Another tool writes its own file over ours: one edit and one restart mend it.
    other = original.replace("not ours", "not theirs either")
    write(node, CONTAINERD, other)
    mended = node.play(RUNTIMES)
    assert mended.ok, mended.message()
    assert mended.changed() == [CONFIGURE, RESTART]
    assert device_nodes(pods, "0") == {"/dev/nvidia0"} | control
    assert node.play(RUNTIMES).changed() == []

    # A specification that is older than the driver or the layout is found, and made anew on demand.
    checked = node.play("gpu.node.validate")
    assert checked.ok, checked.message()
    current = node.run("cat", SPEC)
    node.run("systemctl", "stop", "gpu-cdi.path")
    for old, told in (
        (current.replace("libcuda.so.", "libcuda.so.1."), "mounts files that are gone"),
        (current.replace('"MIG-', '"MIG-0'), "does not describe the devices that the GPUs have"),
    ):
        write(node, SPEC, old)
        stale = node.play("gpu.node.validate")
        assert not stale.ok
        assert told in stale.message()
    node.run("systemctl", "start", "gpu-cdi.service", "gpu-cdi.path")
    assert node.run("cat", SPEC) == current

    # A handler is for the pods that name it, and leaves the others as they were.
    install_wrapper(node)
    handed = node.play(RUNTIMES, container_runtime_mode="runtime_class")
    assert handed.ok, handed.message()
    assert pods.run([], *TRUE) == {"ran"}
    assert created(node) == 0
    assert pods.run([], *TRUE, handler="nvidia") == {"ran"}
    assert created(node) == 2  # the pod's own container, and the one in it

    # All is removed, and the device plugin, once it has looked again, has devices that no container can have.
    node.play(container_runtime_state="absent", cdi_state="absent", validate_wait_timeout=1)
    eventually(lambda: set(node.allocatable().values()) - {0}, set())
    stranded = node.play("gpu.node.validate", validate_wait_timeout=1)
    assert not stranded.ok
    assert "no container runtime knows the CDI device" in stranded.message()
    assert node.run("cat", CONTAINERD) == other
    left = node.run(
        "sh", "-c", f"ls {SPEC} /etc/systemd/system/gpu-cdi.* /etc/gpu-node/cdi.json", check=False
    )
    assert left == ""
    assert device_nodes(pods) == set()
