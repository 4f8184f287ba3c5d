# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Settings whose effect shows on a node only."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fakes.daemon.running import GPU
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

CDI = "k8s.device-plugin.nvidia.com"


def library(node: Node) -> Path:
    """The simulated driver's library, which no daemon is to find in the usual way any more."""
    found = Path(node.env.pop("LD_LIBRARY_PATH")) / "libnvidia-ml.so.1"
    assert found.exists()
    return found


@pytest.mark.parametrize(
    ("flag", "folder"),
    [
        ("--driver-root-ctr-path", "usr/lib64"),
        ("--driver-root", "usr/lib/x86_64-linux-gnu"),
    ],
)
def test_the_drivers_library_below_another_root(
    make_node: MakeNode, flag: str, folder: str
) -> None:
    node = make_node(1)
    root = node.folder / "driver"
    (root / folder).mkdir(parents=True)
    real = library(node).resolve()  # its name has the driver's version
    shutil.copy(real, root / folder)
    # Links lead to what is below the root.
    (root / folder / "libnvidia-ml.so.1").symlink_to(f"/{folder}/{real.name}")
    node.serve(1, "", f"{flag}={root}")


def test_a_root_without_the_library_is_no_hindrance(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon("", "--container-driver-root=/none", "--driver-root=/none")
    assert node.wait(GPU, 1)["allocatable"] == 1


def test_what_containers_get_besides_gpus_by_cdi(make_node: MakeNode) -> None:
    node = make_node(1)
    (uuid,) = node.uuids()
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": uuid, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
        ],
    }
    (node.sim.root / "etc/cdi").mkdir(parents=True)
    (node.sim.root / "etc/cdi/nvidia.json").write_text(json.dumps(spec))
    (node.sim.root / "dev/gdrdrv").write_text("")
    node.start_kubelet()
    node.start_daemon(
        "flags: {gdrcopyEnabled: true, gdsEnabled: true, plugin: {deviceListStrategy: cdi-cri}}"
    )
    node.wait(GPU, 1)
    names = [f"{CDI}/gpu={uuid}", f"{CDI}/gdrcopy=all"]
    assert node.admit("one", gpu=1)["cdi_devices"] == names
    assert node.logged().count("wanted=gds") == 1
    node.ask("release", pod="one")
    (node.sim.root / "dev/nvidia-fs0").write_text("")
    eventually((node.sim.root / f"var/run/cdi/{CDI}-gds.json").exists)
    assert node.admit("two", gpu=1)["cdi_devices"] == [*names, f"{CDI}/gds=all"]
