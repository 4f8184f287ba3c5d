# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where a genuine podman of each release looks for specifications, and what the role says of that."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.engines import Podman
from ansible_collections.gpu.node.plugins.module_utils._runtime.state import RuntimeOptions

from tests.fakes.runtime.genuine_runtimes import NEWEST, OLDER, GenuineRuntimes, planned
from tests.fakes.runtime.podman_containers import ROOT, PodmanContainers

CONF = "/etc/containers/containers.conf"
DROP_INS = f"{CONF}.d"
PLACES = ("/etc/cdi", "/var/run/cdi", "/etc/site", "/etc/other")
UNRESOLVABLE = "unresolvable CDI devices nvidia.com/gpu=0"
SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["SEEN=yes"]}}],
}
FILES: dict[str, dict[str, str]] = {
    "no file": {},
    "a file without the key": {CONF: '[engine]\nlock_type = "file"\n'},
    "one folder": {CONF: '[engine]\ncdi_spec_dirs = ["/etc/site"]\n'},
    "a drop-in": {
        CONF: '[engine]\ncdi_spec_dirs = ["/etc/site"]\n',
        f"{DROP_INS}/10-site.conf": '[engine]\ncdi_spec_dirs = ["/etc/cdi", "/etc/other"]\n',
    },
    "a drop-in that appends": {
        CONF: '[engine]\ncdi_spec_dirs = ["/etc/cdi"]\n',
        f"{DROP_INS}/10-site.conf": ('[engine]\ncdi_spec_dirs = ["/etc/site", {append = true}]\n'),
    },
    "a drop-in of another name": {f"{DROP_INS}/10-site": '[engine]\ncdi_spec_dirs = ["/x"]\n'},
}
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="runs containers as root"),
    pytest.mark.skipif(
        not (shutil.which("conmon") and shutil.which("runc", path="/usr/sbin:/usr/bin")),
        reason="needs conmon and runc",
    ),
    pytest.mark.long,
]


@pytest.mark.parametrize("suite", [OLDER, NEWEST])
@pytest.mark.parametrize("files", FILES)
def test_folders_are_those_that_podman_looks_into(tmp_path: Path, suite: str, files: str) -> None:
    node = GenuineRuntimes(tmp_path, suite, FILES[files])
    containers = PodmanContainers(node)
    found = set()
    for place in PLACES:
        path = f"{place.replace('/var/run', '/run')}/nvidia.json"
        node.put(path, json.dumps(SPEC))
        ran = containers.run("--device=nvidia.com/gpu=0", "--rootfs", ROOT, "/bin/busybox", "env")
        assert "SEEN=yes" in ran.out or UNRESOLVABLE in ran.err, ran.err
        if "SEEN=yes" in ran.out:
            found.add(place)
        node.remove(path)
    view = Podman(node).view("", RuntimeOptions())
    assert found == {*view.effective["cdi_spec_dirs"]} & {*PLACES}


@pytest.mark.parametrize("suite", [OLDER, NEWEST])
def test_step_that_the_role_names_helps(tmp_path: Path, suite: str) -> None:
    node = GenuineRuntimes(tmp_path, suite)
    containers = PodmanContainers(node)
    node.put("/etc/site/nvidia.json", json.dumps(SPEC))
    (warning,) = planned(node, name="podman", spec_dirs=["/etc/cdi", "/etc/site"]).warnings
    step = warning.partition("Next step: ")[2]
    if suite == OLDER:
        assert "write the specification to /etc/cdi (cdi_path), or upgrade podman to 5.5" in step
        node.put("/etc/cdi/nvidia.json", json.dumps(SPEC))
    else:
        key = step.removeprefix("set ").partition(" in [engine] of ")
        node.put(key[2], f"[engine]\n{key[0]}\n")
        assert planned(node, name="podman", spec_dirs=["/etc/cdi", "/etc/site"]).warnings == ()
    ran = containers.run("--device=nvidia.com/gpu=0", "--rootfs", ROOT, "/bin/busybox", "env")
    assert "SEEN=yes" in ran.out, ran.err
