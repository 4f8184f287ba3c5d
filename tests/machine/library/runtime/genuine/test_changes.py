# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Containers of genuine runtimes run through twenty changes of each, or a change is refused with their names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.visible_devices import TOOLKIT_CONFIG

from tests.fakes.runtime import crio_unit
from tests.fakes.runtime.crio_unit import CrioUnit
from tests.fakes.runtime.daemon_unit import DaemonUnit, started
from tests.fakes.runtime.genuine_runtimes import converge

CRIO_BIN = os.environ.get("CRIO_BIN", "")
CHANGES = 20
FOLDERS = ["/etc/cdi", "/var/run/cdi", "/opt/cdi"]
TO_CRUN = '[nvidia-container-runtime]\nruntimes = ["crun"]\n'
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="runs containers as root"),
    pytest.mark.skipif(
        shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin") is None, reason="needs runc"
    ),
    pytest.mark.long,
]


class Changes:
    """Changes of a runtime, each of which is one of its files or a refusal with the names of containers."""

    def __init__(self, node: DaemonUnit, **always: Any) -> None:
        self._node, self._always = node, always
        self.count = 0

    def make(self, **params: Any) -> None:
        """Make a change, and have the unit take it over."""
        self.count += 1
        assert self._converge(**params)

    def refused(self, message: str, **params: Any) -> None:
        """See that a change is refused, and that no file is another one then."""
        self.count += 1
        before = self._node.files()
        with pytest.raises(NodeError, match=message):
            self._converge(**params)
        assert self._node.files() == before

    def _converge(self, **params: Any) -> list[str]:
        return converge(self._node, **self._always, restart_now=[self._node.unit], **params)


@pytest.mark.skipif(not CRIO_BIN, reason="CRIO_BIN names no folder with crio")
def test_pods_of_cri_o(tmp_path: Path) -> None:
    node = CrioUnit(tmp_path, Path(CRIO_BIN))
    before = node.read(crio_unit.DROP_IN)
    with started(node):
        pods = node.pods
        pods.start("plain")
        changes = Changes(node, name="cri-o", handler_path=crio_unit.HANDLER)
        changes.make(spec_dirs=FOLDERS)
        changes.make(spec_dirs=[*FOLDERS, "/srv/cdi"])
        changes.make(mode="runtime_class")
        pods.start("handled", handler="nvidia")
        changes.refused("would lose .*", mode="cdi")
        changes.refused("would lose .*", mode="runtime_class", handler="other")
        changes.refused("would lose .*", state="absent")
        assert pods.running() == {"plain", "handled"}
        pods.end("handled")
        changes.make(mode="runtime_class", handler="other")
        changes.make(mode="runtime_class", spec_dirs=FOLDERS)
        node.put(TOOLKIT_CONFIG, TO_CRUN)
        node.answers["crun"] = ""
        changes.refused("would lose .*", mode="default_runtime")
        del node.answers["crun"]
        (node.root / TOOLKIT_CONFIG[1:]).unlink()
        changes.make(mode="default_runtime")
        pods.start("late")
        changes.make(mode="runtime_class")
        assert pods.running() == {"plain", "late"}
        changes.refused("would lose .*", mode="cdi")
        changes.make(mode="default_runtime", spec_dirs=FOLDERS)
        changes.refused("would lose .*", state="absent")
        assert pods.running() == {"plain", "late"}
        pods.end("late")
        changes.make(state="absent")
        changes.make(mode="default_runtime")
        changes.make(mode="default_runtime", handler="other")
        changes.make(mode="cdi", spec_dirs=FOLDERS)
        changes.make(mode="runtime_class", spec_dirs=FOLDERS)
        changes.make(mode="default_runtime", spec_dirs=["/opt/cdi"])
        changes.make(state="absent")
        assert pods.running() == {"plain"}
        assert node.read(crio_unit.DROP_IN) == before
        assert changes.count >= CHANGES
