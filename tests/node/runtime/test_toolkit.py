# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container toolkit from a repository, its generator and its hooks, and what keeps the specification true."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.fakes.packages.pgp_keys import Key
from tests.node.runtime.toolkit_package import NAME, UNIT, WRITTEN, build
from tests.support.waiting import eventually

SPEC = "/etc/cdi/nvidia.yaml"
HOOK = "/usr/bin/nvidia-cdi-hook"
PLAY = str(Path(__file__).parent / "toolkit.yml")
UNSAFE, SAFE = "1.19.0", "1.20.1"
LEFT = "ls -d /etc/apt/*/gpu-node-container-toolkit* /etc/systemd/system/nvidia-cdi-refresh* /var/lib/gpu-node/*"
UNPACK = (
    "import base64, io, sys, tarfile; "
    "tarfile.open(fileobj=io.BytesIO(base64.b64decode(sys.argv[1]))).extractall('/srv/toolkit')"
)

pytestmark = [pytest.mark.node, pytest.mark.long]


def spec(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.run("cat", SPEC))
    return found


def names(node: Node) -> set[str]:
    return {one["name"] for one in spec(node)["devices"] if "-" not in one["name"]}


def hooks(node: Node) -> set[str]:
    return {one["args"][1] for one in spec(node)["containerEdits"].get("hooks", ())}


def dpkg(node: Node) -> str:
    words = ("dpkg-query", "-W", "-f", "${Version} ${db:Status-Abbrev}", NAME)
    return node.run(*words, check=False).strip()


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return Key(tmp_path / "key", "ed25519")


def wanted(key: Key) -> dict[str, Any]:
    return {
        "container_toolkit_state": "present",
        "container_toolkit_parts": "base",
        "container_toolkit_repository": {"url": "file:///srv/toolkit", "key": key.armoured},
    }


def offer(node: Node, folder: Path, key: Key, *versions: str) -> None:
    node.run("python3", "-c", UNPACK, build(folder, key, *versions))


def test_toolkit_is_installed_held_and_removed(
    make_node: Callable[..., Node], tmp_path: Path, key: Key
) -> None:
    node = make_node("toolkit-alone", "", 0)
    offer(node, tmp_path / "new", key, UNSAFE, SAFE)
    up = node.play(PLAY, **wanted(key))
    assert up.ok, up.message()
    assert dpkg(node) == f"{SAFE}-1 hi"
    # Its own writer of specifications was started by the package, and did nothing.
    assert node.run("systemctl", "is-enabled", UNIT).strip() == "enabled"
    assert "condition" in node.run("systemctl", "status", UNIT, check=False).lower()
    assert node.run("sh", "-c", f"ls {WRITTEN}", check=False) == ""
    again = node.play(PLAY, **wanted(key))
    assert again.ok, again.message()
    assert again.changed() == []
    assert len(again.module_calls()) == 2

    gone = node.play(PLAY, container_toolkit_state="absent")
    assert gone.ok, gone.message()
    assert dpkg(node) in ("", "un")
    assert node.run("sh", "-c", LEFT, check=False) == ""


def test_specification_follows_the_toolkit(
    brought_up: Callable[..., Node], tmp_path: Path, key: Key
) -> None:
    node = brought_up("toolkit", "h100-80", 2)
    offer(node, tmp_path / "new", key, SAFE)
    up = node.play(**wanted(key))
    assert up.ok, up.message()
    assert names(node) == {"0", "1", "all"}
    assert "create-symlinks" in hooks(node)
    again = node.play(**wanted(key))
    assert again.ok, again.message()
    assert again.changed() == []

    # Its generator instead of ours, and what keeps the file up to date uses it too.
    other = node.play(**wanted(key), cdi_generator="nvidia-ctk")
    assert other.ok, other.message()
    assert hooks(node) == {"disable-device-node-modification"}
    node.run("python3", "-c", f"open({SPEC!r}, 'w').write('')")
    node.run("systemctl", "start", "gpu-cdi.service")
    assert hooks(node) == {"disable-device-node-modification"}
    assert node.play(**wanted(key), cdi_generator="nvidia-ctk").changed() == []

    back = node.play(**wanted(key))
    assert back.ok, back.message()
    assert "create-symlinks" in hooks(node)

    # A library that comes or goes with a package is noticed.
    library = node.run(
        "sh", "-c", "readlink -f $(ldconfig -p | sed -n 's/.*libcuda.so.1 .*=> //p')"
    ).strip()
    extra = library.replace("libcuda.so", "libnvidia-extra.so")
    node.run("sh", "-c", f"cp {library} {extra} && ldconfig")
    eventually(lambda: extra in json.dumps(spec(node)), True)
    node.run("sh", "-c", f"rm {extra} && ldconfig")
    eventually(lambda: extra in json.dumps(spec(node)), False)

    # Without the toolkit no specification names its hook, or no container would start.
    gone = node.play(PLAY, container_toolkit_state="absent")
    assert gone.ok, gone.message()
    assert dpkg(node) in ("", "un")
    eventually(lambda: hooks(node), set())
    checked = node.play("gpu.node.validate")
    assert checked.ok, checked.message()
