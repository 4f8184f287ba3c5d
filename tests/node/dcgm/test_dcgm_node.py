# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DCGM and its exporter on a node in service, with stand-ins of both; the packages' names and relations are genuine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.support.waiting import eventually

HERE = Path(__file__).parent
PLAY = str(HERE / "dcgm.yml")
ENGINE, EXPORTER = "nvidia-dcgm.service", "gpu-dcgm-exporter.service"
PAGE = (
    "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9400/metrics').read().decode())"
)
LOOK = (
    "dpkg --get-selections; apt-mark showhold; ls /var/lib/gpu-node | grep -v mig;"
    " find /etc/systemd /etc/gpu-node /usr/local -type f | grep -v mig | sort"
)
CUT = {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 2}}
MIG = {"version": "v1", "mig-configs": {"cut": [{"devices": [0], "mig-enabled": False}, CUT]}}

pytestmark = [pytest.mark.node, pytest.mark.long]


def told(node: Node) -> dict[str, Any]:
    """Return what the exporter tells of itself."""
    found: dict[str, Any] = json.loads(node.run("python3", "-c", PAGE))
    return found


def since(node: Node, unit: str) -> int:
    """Return when a unit was last started."""
    words = ("systemctl", "show", unit, "--property=ActiveEnterTimestampMonotonic", "--value")
    return int(node.run(*words))


def active(node: Node) -> list[str]:
    return node.run("systemctl", "is-active", ENGINE, EXPORTER, check=False).split()


def test_dcgm_and_its_exporter_are_installed_stopped_for_a_layout_and_removed(
    brought_up: Callable[..., Node],
) -> None:
    node = brought_up("dcgm", "h100-80", 2)
    checksum = node.run("python3", "-c", (HERE / "dcgm_packages.py").read_text()).strip()
    before = node.run("sh", "-c", LOOK)
    wanted = {
        "dcgm_state": "present",
        "dcgm_exporter": {"location": "/srv/dcgm-exporter", "sha256": checksum},
    }
    checked = node.play(PLAY, cmdline="--check --diff", **wanted)
    assert checked.ok, checked.message()
    assert node.run("sh", "-c", LOOK) == before

    first = node.play(PLAY, **wanted)
    assert first.ok, first.message()
    eventually(lambda: active(node), ["active", "active"])
    eventually(lambda: told(node)["argv"], [])
    found = told(node)
    assert found["kubelet"] is True
    assert (found["uid"], int(found["caps"], 16)) == (0, 0)
    assert found["env"]["DCGM_EXPORTER_KUBERNETES"] == "true"
    assert "DCGM_FI_DEV_GPU_UTIL" in found["fields"]

    again = node.play(PLAY, **wanted)
    assert again.ok, again.message()
    assert again.changed() == []

    alone = {**wanted["dcgm_exporter"], "kubernetes": False}  # type: ignore[dict-item]
    plain = node.play(PLAY, dcgm_state="present", dcgm_exporter=alone)
    assert plain.ok, plain.message()
    eventually(lambda: told(node)["kubelet"], None)
    assert told(node)["uid"] != 0

    started = {unit: since(node, unit) for unit in (ENGINE, EXPORTER)}
    cut = node.play("gpu.node.mig", mig_config=MIG)
    assert cut.ok, cut.message()
    eventually(lambda: active(node), ["active", "active"])
    assert all(since(node, unit) > when for unit, when in started.items())

    gone = node.play(PLAY, dcgm_state="absent")
    assert gone.ok, gone.message()
    assert node.run("sh", "-c", LOOK) == before
