# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node that reaches no index is brought up from a bundle, and a mirror with the packages that the bundle lists."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpunode_tool.testing import Node

if TYPE_CHECKING:
    from tests.node.conftest import MakeNode

MIRROR = "/srv/mirror"
MIG = {
    "version": "v1",
    "mig-configs": {
        "half": [
            {"devices": [0], "mig-enabled": False, "mig-devices": {}},
            {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 2}},
        ]
    },
}
# Nothing outside the bridge that the tests come through; names are not answered either.
CUT = "ip route del default && echo 'nameserver 192.0.2.1' >/etc/resolv.conf"
REACH = "import socket; socket.create_connection(('192.0.2.1', 443), 5)"

pytestmark = [pytest.mark.node, pytest.mark.long]


def listed(bundle: Path, *titles: str) -> list[str]:
    """Return the packages of a bundle's list for Debian 13, by the beginnings of their titles."""
    parts = (bundle / "packages/debian-13.txt").read_text().split("\n\n# ")
    chosen = [one for one in parts if one.startswith(titles)]
    assert len(chosen) == len(titles)
    names = [name for one in chosen for name in one.splitlines()[1:] if name]
    return [one for one in names if "<" not in one]  # the simulated node has no kernel of its own


@pytest.fixture
def cut_off(make_node: MakeNode, bundle: Path) -> Node:
    """A bare node without a way out, and with a mirror of what the bundle says."""
    wheels = str(bundle / "wheels")
    node = make_node("air-gap", "h100-80", 2, mig_config=MIG, device_plugin_wheelhouse=wheels)
    packages = listed(
        bundle, "the driver, from the distribution's own", "the device plugin's virtual"
    )
    script = (Path(__file__).parent / "mirror.py").read_text()
    node.run("python3", "-c", script, MIRROR, *packages)
    node.run("sh", "-c", CUT)
    assert node.run("sh", "-c", f'python3 -c "{REACH}" 2>&1 || true').endswith("unreachable\n")
    return node


def test_a_node_that_reaches_no_index_is_brought_up_from_a_bundle(
    cut_off: Node, bundle: Path, tmp_path: Path
) -> None:
    tampered = tmp_path / "tampered"
    shutil.copytree(bundle / "wheels", tampered)
    wheel = next(tampered.glob("grpcio-*.whl"))
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    refused = cut_off.play(device_plugin_wheelhouse=str(tampered))
    assert not refused.ok
    assert f"{wheel.name} has another content" in refused.message()
    assert refused.changed() == []

    up = cut_off.play()
    assert up.ok, up.message()
    warned = [one for _action, _task, result in up.results() for one in result.get("warnings", ())]
    assert any("apt installs python3-venv" in one for one in warned)
    assert cut_off.allocatable() == {"gpu": 1, "mig-1g.10gb": 2}
    assert cut_off.status()["state"] == "serving"

    again = cut_off.play()
    assert again.ok, again.message()
    assert again.changed() == []
    # What is there is the same whichever way its wheels came: nothing is asked for them now.
    without = cut_off.play(device_plugin_wheelhouse="")
    assert without.ok, without.message()
    assert without.changed() == []
