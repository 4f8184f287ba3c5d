# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Containers of genuine runtimes run through twenty changes of each, or a change is refused with their names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.visible_devices import TOOLKIT_CONFIG

from tests.fakes.runtime import crio_unit
from tests.fakes.runtime.containerd_unit import ContainerdUnit
from tests.fakes.runtime.crio_unit import HANDLER, CrioUnit
from tests.fakes.runtime.daemon_unit import started
from tests.fakes.runtime.docker_unit import SOCKET, docker_unit
from tests.fakes.runtime.genuine_runtimes import (
    CONFIG,
    DAEMON,
    NEWEST,
    OLDER,
    GenuineRuntimes,
    converge,
    runs_containers,
    with_cdi,
)
from tests.fakes.runtime.podman_containers import PodmanContainers
from tests.support.waiting import eventually

CRIO_BIN = os.environ.get("CRIO_BIN", "")
CHANGES = 20
FOLDERS = ["/etc/cdi", "/var/run/cdi", "/opt/cdi"]
RENAMED: dict[str, Any] = {"mode": "runtime_class", "handler": "other"}
TO_CRUN = '[nvidia-container-runtime]\nruntimes = ["crun"]\n'
pytestmark = [
    *runs_containers,
    pytest.mark.long,
]


class Changes:
    """Changes of a runtime, each of which is one of its files or a refusal with the names of containers."""

    def __init__(
        self, node: GenuineRuntimes, running: Callable[[], set[str]], **always: Any
    ) -> None:
        self._node, self._running, self._always = node, running, always
        self.containers: set[str] = set()  # those that run, whatever is changed
        self.count = 0

    def make(self, **params: Any) -> None:
        """Make a change, and see that all containers run after it."""
        assert self._converge(**params)
        self._check()

    def refuse(self, message: str, **params: Any) -> None:
        """See that a change is refused, that no file is another one then, and that all containers run."""
        before = self._files()
        with pytest.raises(NodeError, match=message):
            self._converge(**params)
        assert self._files() == before
        self._check()

    def leave(self, **params: Any) -> None:
        """See that nothing has to be done, and that all containers run."""
        assert self._converge(**params) == []
        self._check()

    def _files(self) -> dict[str, str]:
        return {path: text for path, text in self._node.files().items() if path.startswith("/etc/")}

    def _check(self) -> None:
        self.count += 1
        assert self._running() == self.containers

    def _converge(self, **params: Any) -> list[str]:
        unit = getattr(self._node, "unit", "")
        return converge(self._node, **self._always, restart_now=[unit] if unit else [], **params)


@pytest.mark.skipif(not CRIO_BIN, reason="CRIO_BIN names no folder with crio")
def test_pods_of_cri_o(tmp_path: Path) -> None:
    with started(CrioUnit(tmp_path, Path(CRIO_BIN))) as node:
        before = node.read(crio_unit.DROP_IN)
        changes = Changes(node, node.pods.running, name="cri-o", handler_path=HANDLER)
        node.pods.start("plain")
        changes.containers = {"plain"}
        changes.make(spec_dirs=FOLDERS)
        changes.make(spec_dirs=[*FOLDERS, "/srv/cdi"])
        changes.make(mode="runtime_class")
        node.pods.start("handled", handler="nvidia")
        changes.containers = {"plain", "handled"}
        for params in ({"mode": "cdi"}, {"state": "absent"}, RENAMED):
            changes.refuse("would lose .*they run under the handler nvidia", **params)
        node.pods.end("handled")
        changes.containers = {"plain"}
        changes.make(**RENAMED)
        changes.make(mode="runtime_class", spec_dirs=FOLDERS)
        # NVIDIA's runtime would call crun, and runc has started what runs.
        node.put(TOOLKIT_CONFIG, TO_CRUN)
        node.answers["crun"] = ""
        changes.refuse("would lose .*runc has started them", mode="default_runtime")
        del node.answers["crun"]
        node.remove(TOOLKIT_CONFIG)
        changes.make(mode="default_runtime")
        node.pods.start("late")
        changes.containers = {"plain", "late"}
        changes.make(mode="runtime_class")
        changes.refuse("would lose", mode="cdi")
        changes.make(mode="default_runtime", spec_dirs=FOLDERS)
        changes.refuse("would lose", state="absent")
        node.pods.end("late")
        changes.containers = {"plain"}
        changes.make(state="absent")
        changes.make(mode="default_runtime")
        changes.make(mode="default_runtime", handler="other")
        changes.make(mode="cdi", spec_dirs=FOLDERS)
        changes.make(mode="runtime_class", spec_dirs=FOLDERS)
        changes.make(mode="default_runtime", spec_dirs=["/opt/cdi"])
        changes.make(state="absent")
        assert node.read(crio_unit.DROP_IN) == before
        assert changes.count >= CHANGES


@with_cdi
def test_pods_of_containerd(tmp_path: Path, suite: str) -> None:
    with started(ContainerdUnit(tmp_path, suite)) as node:
        node.import_image()
        before = node.read(CONFIG)
        changes = Changes(node, node.pods.running, name="containerd", handler_path=HANDLER)
        node.pods.start("plain")
        changes.containers = {"plain"}
        for _round in range(2):
            changes.make(mode="cdi")
            changes.make(spec_dirs=FOLDERS)
            changes.make(mode="runtime_class")
            node.pods.start("handled", handler="nvidia")
            changes.containers = {"plain", "handled"}
            for params in ({"mode": "cdi"}, {"state": "absent"}, RENAMED):
                changes.refuse("could not start a container again in default/handled", **params)
            changes.make(mode="default_runtime")
            node.pods.end("handled")
            changes.containers = {"plain"}
            changes.make(**RENAMED)
            changes.make(mode="default_runtime", handler="other", spec_dirs=FOLDERS)
            changes.make(mode="cdi")
            changes.make(state="absent")
            assert node.read(CONFIG) == before
        assert changes.count >= CHANGES


@with_cdi
def test_containers_of_docker(tmp_path: Path, suite: str) -> None:
    with docker_unit(tmp_path, suite, {DAEMON: '{"features": {"cdi": false}}'}) as node:
        node.put(HANDLER, '#!/bin/sh\nexec /usr/sbin/runc "$@"\n')
        (node.root / HANDLER[1:]).chmod(0o755)
        node.answers[HANDLER] = "NVIDIA Container Runtime version 1.20.0\n"
        node.import_image()
        changes = Changes(node, node.running, name="docker", handler_path=HANDLER)
        node.start_container("plain")
        changes.containers = {"plain"}
        # A restart waits for it.
        first = node.daemon
        changes.make(mode="cdi")
        changes.make(mode="runtime_class")
        changes.make(mode="default_runtime")
        changes.make(spec_dirs=FOLDERS)
        changes.make(state="absent")
        assert node.daemon is first
        # No container ends with dockerd any more.
        node.put(
            DAEMON, json.dumps({**json.loads(node.read(DAEMON) or "{}"), "live-restore": True})
        )
        node.run(["systemctl", "reload", node.unit])
        eventually(lambda: node.ask(SOCKET, "/info")["LiveRestoreEnabled"])
        before = node.read(DAEMON)
        for _round in range(2):
            changes.make(mode="cdi", spec_dirs=FOLDERS)
            changes.make(mode="runtime_class")
            node.start_container(f"handled-{_round}", Runtime="nvidia")
            changes.containers = {"plain", f"handled-{_round}"}
            for params in ({"mode": "cdi"}, {"state": "absent"}, RENAMED):
                changes.refuse("could not start handled-. again", **params)
            changes.make(mode="default_runtime")
            node.end(f"handled-{_round}")
            changes.containers = {"plain"}
            changes.make(**RENAMED)
            changes.make(mode="cdi")
            changes.make(state="absent")
            assert node.read(DAEMON) == before
        assert node.daemon is not first
        assert changes.count >= CHANGES


@pytest.mark.parametrize("suite", [OLDER, NEWEST])
def test_containers_of_podman(tmp_path: Path, suite: str) -> None:
    """podman has no daemon, and the role writes nothing for it."""
    node = GenuineRuntimes(tmp_path, suite)
    containers = PodmanContainers(node)
    changes = Changes(node, containers.running, name="podman")
    with containers.sleeping("plain"):
        changes.containers = {"plain"}
        for _round in range(5):
            for mode in ("runtime_class", "default_runtime"):
                changes.refuse("cdi for podman", mode=mode)
            for params in ({"spec_dirs": FOLDERS}, {"state": "absent"}):
                changes.leave(**params)
        assert changes.count >= CHANGES
