# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The ways to ask a genuine dockerd for a GPU without NVIDIA's runtime, as docker.md has them in its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.runtime.docker_unit import SOCKET, DockerUnit, docker_unit
from tests.fakes.runtime.genuine_runtimes import DAEMON, converge, runs_containers, with_cdi

SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": name, "containerEdits": {"env": [f"SEEN={name}"]}} for name in ("0", "all")
    ],
}
NO_DRIVER = "could not select device driver"
pytestmark = [
    *runs_containers,
    pytest.mark.long,
]


def seen(node: DockerUnit, name: str, **asked: Any) -> str:
    """Return the device that a container has which asks for one in some way, or what dockerd says instead."""
    try:
        node.start_container(name, **asked)
    except AssertionError as error:
        return str(error)
    pid = node.ask(SOCKET, f"/containers/{name}/json")["State"]["Pid"]
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return "".join(one for one in variables if one.startswith("SEEN="))


@with_cdi
def test_device_is_had_by_its_cdi_name_alone(tmp_path: Path, suite: str) -> None:
    with docker_unit(tmp_path, suite, {DAEMON: '{"features": {"cdi": false}}'}) as node:
        node.put("/etc/cdi/nvidia.json", json.dumps(SPEC))
        converge(node, name="docker", restart_now=[node.unit])
        node.import_image()
        for device in ("0", "all"):  # --device, and compose's driver: cdi
            cdi = {"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={device}"]}
            assert seen(node, f"cdi-{device}", DeviceRequests=[cdi]) == f"SEEN={device}"
            assert seen(node, f"user-{device}", DeviceRequests=[cdi], user="1000").startswith(
                "SEEN"
            )
        for driver in ("", "nvidia"):  # --gpus all, and compose's driver: nvidia
            gpus = {"Driver": driver, "Count": -1, "Capabilities": [["gpu"]]}
            assert NO_DRIVER in seen(node, f"gpus-{driver or 'any'}", DeviceRequests=[gpus])
