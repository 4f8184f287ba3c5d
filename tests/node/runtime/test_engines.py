# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Docker and podman of Debian 13: what their containers see, and what happens to daemon.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from gpunode_tool.testing import Node

from tests.node.runtime.containers import (
    CONFIGURE,
    IMAGE,
    KIND_OF_NODE,
    RELOAD,
    RESTART,
    RUNTIMES,
    TRUE,
    Engine,
    check_isolation,
    device_nodes,
    install,
    run_of,
    write,
)
from tests.node.runtime.toolkit_standin import created, install_wrapper

DAEMON = "/etc/docker/daemon.json"
ORIGINAL = '{\n\t"log-driver": "json-file",\n\t"storage-driver": "vfs"\n}'
HOLDER = "holder"
OPENS = "for path in /dev/nvidia0 /dev/nvidiactl; do (: <$path); done 2>&1; true"
# Without a driver; a device that the cgroup refuses is "Operation not permitted".
NO_DRIVER = "No such device or address"
UNITS = ("docker.service", "containerd.service")

pytestmark = [pytest.mark.node, pytest.mark.long]


def check_daemon_reload(engine: Engine) -> None:
    """See that a running container may open its devices after systemd has read its units again."""
    node, command = engine.node, engine.words[:-1]
    device = "--device=nvidia.com/gpu=0"
    detached = (*engine.words, "--detach", f"--name={HOLDER}", "--network=none", device)
    node.run(*detached, IMAGE, "/usr/bin/sleep", "infinity")
    inside = (*command, "exec", HOLDER, "/usr/bin/sh", "-c", OPENS)
    before = node.run(*inside)
    assert before.count(NO_DRIVER) == 2, before
    node.run("systemctl", "daemon-reload")
    assert node.run(*inside) == before
    node.run(*command, "rm", "--force", HOLDER)


def test_docker_and_podman_hand_out_what_is_named(brought_up: Callable[..., Node]) -> None:
    node = brought_up("engines", "a100-40", 2, **KIND_OF_NODE)
    bare = node.play(RUNTIMES, container_runtime_state="absent")
    assert bare.ok, bare.message()
    install(node, "docker.io", "docker-cli", "podman")
    node.run("mkdir", "-p", "/etc/docker")
    write(node, DAEMON, ORIGINAL)
    node.run("systemctl", "restart", "docker")
    containerd = node.run("cat", "/etc/containerd/config.toml")
    up = node.play(RUNTIMES)
    assert up.ok, up.message()
    (told,) = [found for _action, task, found in up.results() if task == CONFIGURE]
    assert [one["name"] for one in told["runtimes"]] == ["containerd", "docker", "podman"]
    assert json.loads(node.run("cat", DAEMON)) == {
        **json.loads(ORIGINAL),
        "features": {"cdi": True},
    }
    docker = Engine(node, "docker")
    check_isolation(docker, node)
    podman = Engine(node, "podman")
    check_isolation(podman, node)
    for engine in (docker, podman):
        check_daemon_reload(engine)

    # Nothing has drifted: nothing starts again.
    before = [run_of(node, unit) for unit in UNITS]
    again = node.play(RUNTIMES)
    assert again.ok, again.message()
    assert again.changed() == []
    assert [run_of(node, unit) for unit in UNITS] == before

    # Another tool writes its own file over ours: Docker alone starts again, once.
    other = ORIGINAL.replace("json-file", "local")
    write(node, DAEMON, other)
    mended = node.play(RUNTIMES)
    assert mended.ok, mended.message()
    assert mended.changed() == [CONFIGURE, RESTART]
    after = [run_of(node, unit) for unit in UNITS]
    assert after[0] != before[0]
    assert after[1] == before[1]
    cdi = node.run("cat", DAEMON)
    assert "/dev/nvidia0" in device_nodes(docker, "0")
    silent = node.play(RUNTIMES)
    assert silent.changed() == []
    assert [run_of(node, unit) for unit in UNITS] == after

    # Docker takes over a handler while it runs, and another one's path too.
    install_wrapper(node)
    wanted: dict[str, Any] = {
        "container_runtime_name": "docker",
        "container_runtime_mode": "runtime_class",
    }
    handled = node.play(RUNTIMES, **wanted)
    assert [task for task in handled.changed() if task != CONFIGURE] == [RELOAD]
    assert [run_of(node, unit) for unit in UNITS] == after
    assert docker.run([], *TRUE, options=("--runtime=nvidia",)) == docker.run([], *TRUE) == {"ran"}
    assert created(node) == 1
    assert node.play(RUNTIMES, **wanted).changed() == []
    back = node.play(RUNTIMES)
    assert [task for task in back.changed() if task != CONFIGURE] == [RESTART]
    assert node.run("cat", DAEMON) == cdi

    # A damaged file is named with its place, and left alone.
    write(node, DAEMON, other[:-1])
    damaged = node.play(RUNTIMES)
    assert not damaged.ok
    assert f"{DAEMON} is not valid JSON" in damaged.message()
    assert node.run("cat", DAEMON) == other[:-1]
    write(node, DAEMON, other)
    assert node.play(RUNTIMES).changed() == [CONFIGURE, RESTART]

    gone = node.play(RUNTIMES, container_runtime_state="absent")
    assert gone.ok, gone.message()
    assert node.run("cat", DAEMON) == other
    assert node.run("cat", "/etc/containerd/config.toml") == containerd
    assert "container_runtime" not in node.run("ls", "/var/lib/gpu-node")
