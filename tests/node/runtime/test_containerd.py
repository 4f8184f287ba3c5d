# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Real containerd of other versions: 2.1, which merges drop-in files, and 1.6, which has no CDI."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import (
    CONFIGURE,
    KIND_OF_NODE,
    RELOAD,
    RESTART,
    RUNTIMES,
    TRUE,
    Engine,
    Pods,
    check_isolation,
    install,
    run_of,
    write,
)
from tests.node.runtime.toolkit_standin import created, install_wrapper

CONFIG = "/etc/containerd/config.toml"
DROP_IN = "/etc/containerd/conf.d/zz-gpu-node.toml"
NEW = "io.containerd.cri.v1.runtime"
# Of Debian's next release; its mirror keeps only the newest one.
PACKAGE = "pool/main/c/containerd/containerd_2.1.9+ds1-5_amd64.deb"
SHA256 = "2dda86ce7033fd612fc50e136679d8174ccad680eb29cd4611e0d2a1b84cf591"
FETCH = """
import hashlib, sys, urllib.error, urllib.request
mirror = open("/etc/apt/sources.list").read().split()[1]
try:
    data = urllib.request.urlopen(f"{mirror}/{sys.argv[1]}").read()
except urllib.error.HTTPError as error:
    sys.exit(f"{error.code}")
found = hashlib.sha256(data).hexdigest()
assert found == sys.argv[2], found
open("/tmp/containerd.deb", "wb").write(data)
"""
MAIN = f"""\
# The site's own file
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]

[plugins."{NEW}"]
  enable_cdi = false  # until the GPUs are there
  restrict_oom_score_adj = true
"""

pytestmark = [pytest.mark.node, pytest.mark.long]


def fetch(node: Node) -> None:
    """Install containerd 2.1 over the node's own."""
    answer = node.run("sh", "-c", 'python3 -c "$0" "$@" 2>&1', FETCH, PACKAGE, SHA256, check=False)
    if answer.strip() == "404":
        pytest.skip(f"the mirror does not have {PACKAGE} any more: name a newer one")
    assert answer == ""
    node.run("dpkg", "--install", "--force-confold", "/tmp/containerd.deb")


def effective(node: Node) -> dict[str, Any]:
    """Return the section of the CRI plugin in effect."""
    dump: dict[str, Any] = tomllib.loads(node.run("containerd", "config", "dump"))["plugins"]
    found: dict[str, Any] = dump[NEW]
    return found


def test_containerd_2_1_gets_a_drop_in_file_that_is_merged(brought_up: Callable[..., Node]) -> None:
    node = brought_up("containerd2", "a100-40", 2, **KIND_OF_NODE)
    assert node.play(RUNTIMES, container_runtime_state="absent").ok
    fetch(node)
    node.run("mkdir", "-p", "/etc/containerd/conf.d")
    write(node, CONFIG, MAIN)
    node.run("systemctl", "restart", "containerd")
    assert effective(node)["enable_cdi"] is False
    up = node.play()
    assert up.ok, up.message()
    assert node.run("cat", CONFIG) == MAIN
    section = tomllib.loads(node.run("cat", DROP_IN))
    assert section == {"version": 3, "plugins": {NEW: {"enable_cdi": True}}}
    assert effective(node)["restrict_oom_score_adj"] is True
    pods = Pods(node)
    check_isolation(pods, node)

    # What the main file says later counts as well, and is no drift.
    before = run_of(node, "containerd")
    later = MAIN + "  max_container_log_line_size = 4096\n"
    write(node, CONFIG, later)
    again = node.play(RUNTIMES)
    assert again.ok, again.message()
    assert again.changed() == []
    assert run_of(node, "containerd") == before
    assert effective(node)["max_container_log_line_size"] == 4096

    # A handler is for the pods that name it.
    refused = node.play(RUNTIMES, container_runtime_mode="runtime_class")
    assert "nvidia-container-runtime is not on the node" in refused.message()
    install_wrapper(node, "1.17.7")
    refused = node.play(RUNTIMES, container_runtime_mode="runtime_class")
    assert "has version 1.17.7" in refused.message()
    assert run_of(node, "containerd") == before
    install_wrapper(node)
    assert node.play(RUNTIMES, container_runtime_mode="runtime_class").changed() == [
        CONFIGURE,
        RESTART,
    ]
    assert pods.run([], *TRUE) == {"ran"}
    assert created(node) == 0
    assert pods.run([], *TRUE, handler="nvidia") == {"ran"}
    assert created(node) == 2  # the pod's own container, and the one in it

    gone = node.play(RUNTIMES, container_runtime_state="absent")
    assert gone.ok, gone.message()
    assert node.run("cat", CONFIG) == later
    assert node.run("ls", "/etc/containerd/conf.d") == ""
    assert "container_runtime" not in node.run("ls", "/var/lib/gpu-node")
    assert effective(node)["enable_cdi"] is False


def test_runtimes_without_cdi_are_refused_and_serve_a_handler(
    make_node: Callable[..., Node],
) -> None:
    node = make_node("old", "a100-40", 1, suite="bookworm", runtime_environment=True)
    install(node, "docker.io")
    files = (CONFIG, "/etc/docker/daemon.json")
    text = node.run("cat", CONFIG)
    section = '[plugins."io.containerd.grpc.v1.cri"]'
    text = text.replace(section, f"{section}\n    restrict_oom_score_adj = true")
    write(node, CONFIG, text)
    node.run("systemctl", "restart", "containerd", "docker")
    units = ("containerd.service", "docker.service")
    before = [run_of(node, unit) for unit in units]
    for name, told in (
        ("containerd", "containerd 1.6.20 does not support CDI"),
        ("docker", "docker 20.10.24 does not support CDI"),
        ("auto", "containerd 1.6.20 does not support CDI"),
    ):
        refused = node.play(RUNTIMES, container_runtime_name=name)
        assert not refused.ok
        message = refused.message()
        assert told in message, message
    assert node.run("cat", *files, check=False) == text
    assert [run_of(node, unit) for unit in units] == before

    install_wrapper(node)
    handler: dict[str, Any] = {
        "container_runtime_mode": "runtime_class",
        "runtime_environment": False,
    }
    up = node.play(RUNTIMES, **handler)
    assert up.ok, up.message()
    assert up.changed() == [CONFIGURE, RESTART, RELOAD]
    after = [run_of(node, unit) for unit in units]
    assert node.play(RUNTIMES, **handler).changed() == []
    assert [run_of(node, unit) for unit in units] == after
    pods, docker = Pods(node), Engine(node, "docker")
    assert pods.run([], *TRUE) == docker.run([], *TRUE) == {"ran"}
    assert created(node) == 0
    assert pods.run([], *TRUE, handler="nvidia") == {"ran"}
    assert created(node) == 2  # the pod's own container, and the one in it
    assert docker.run([], *TRUE, options=("--runtime=nvidia",)) == {"ran"}
    assert created(node) == 3
