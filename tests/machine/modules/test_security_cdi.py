# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A user of the node without rights gets nothing of his into GPU containers, and keeps none from starting."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nvsim.testing import Sim, start

from tests.machine.modules import runc_container

Run = Callable[..., dict[str, Any]]
NOBODY = 65534
SEEN = "stat -c %u /tmp/nvidia-mps 2>/dev/null; ls /run/nvidia-persistenced; echo started"
STARTED = "socket\nstarted\n"  # with what is root's, and without what is a user's
pytestmark = pytest.mark.skipif(
    shutil.which("runc") is None or os.geteuid() != 0, reason="needs root and runc"
)


@pytest.fixture
def node() -> Iterator[Sim]:
    """Return a node with a folder that everybody may write to, as /tmp is."""
    with start("a100-40", 1) as sim:
        temporary = sim.root / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        service = sim.root / "run/nvidia-persistenced/socket"
        service.parent.mkdir(parents=True)
        service.touch()
        yield sim


@pytest.fixture
def edits(node: Sim, tmp_path: Path, run_module: Run) -> Callable[..., dict[str, Any]]:
    """Return a function that returns what all containers get by the specification."""

    def read(**args: Any) -> dict[str, Any]:
        path = tmp_path / "cdi/nvidia.yaml"
        values = {"path": str(path), "driver_root": str(node.root), "hooks": "never", **args}
        answer = run_module(node, "cdi", **values)
        assert not answer.get("failed"), answer["msg"]
        common: dict[str, Any] = json.loads(path.read_text())["containerEdits"]
        return common

    return read


@pytest.fixture
def generator(node: Sim, tmp_path: Path) -> Callable[..., None]:
    """Return a function that puts a stand-in for nvidia-ctk on the node, which mounts what it is told."""

    def install(*mounts: tuple[Path, str]) -> None:
        edits = {
            "mounts": [
                {"hostPath": str(host), "containerPath": inside, "options": ["bind"]}
                for host, inside in mounts
            ]
        }
        gpu = {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": f"{node.root}/dev/nvidia0"}]}
        spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": edits}
        spec["devices"] = [{"name": "0", "containerEdits": gpu}]
        program = tmp_path / "bin/nvidia-ctk"
        program.parent.mkdir(exist_ok=True)
        text = f"#!/bin/sh\n[ \"$1\" = --version ] && echo 'CLI version 1.20.1' && exit\necho '{json.dumps(spec)}'\n"
        program.write_text(text)
        program.chmod(0o755)
        node.env["PATH"] = f"{program.parent}:{node.env['PATH']}"

    return install


def as_nobody(sim: Sim, *words: str) -> None:
    subprocess.run(
        words, cwd=sim.root / "tmp", user=NOBODY, group=NOBODY, extra_groups=[], check=True
    )


@pytest.mark.attack("world-writable-folder-mounted")
def test_container_gets_no_folder_of_a_user(
    node: Sim, edits: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    as_nobody(node, "mkdir", "nvidia-mps")
    done = runc_container.run(tmp_path, edits(), SEEN)
    assert (done.stdout, done.returncode) == (STARTED, 0), done.stderr


@pytest.mark.attack("world-writable-folder-mounted")
def test_container_gets_nothing_that_a_users_link_leads_to(
    node: Sim, edits: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    as_nobody(node, "ln", "-s", "/", "nvidia-mps")
    done = runc_container.run(tmp_path, edits(), SEEN)
    assert (done.stdout, done.returncode) == (STARTED, 0), done.stderr


@pytest.mark.attack("world-writable-folder-mounted")
def test_container_starts_after_a_users_folder_is_gone(
    node: Sim, edits: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    as_nobody(node, "mkdir", "nvidia-mps")
    common = edits()
    as_nobody(node, "rmdir", "nvidia-mps")
    done = runc_container.run(tmp_path, common, SEEN)
    assert (done.stdout, done.returncode) == (STARTED, 0), done.stderr


@pytest.mark.attack("world-writable-folder-mounted")
def test_container_gets_no_folder_of_a_user_by_the_toolkits_generator(
    node: Sim, edits: Callable[..., dict[str, Any]], generator: Callable[..., None], tmp_path: Path
) -> None:
    as_nobody(node, "mkdir", "nvidia-mps")
    service = node.root / "run/nvidia-persistenced/socket"
    generator(
        (node.root / "tmp/nvidia-mps", "/tmp/nvidia-mps"),
        (service, "/run/nvidia-persistenced/socket"),
    )
    common = edits(generator="nvidia-ctk", hooks="auto")
    done = runc_container.run(tmp_path, common, SEEN)
    assert (done.stdout, done.returncode) == (STARTED, 0), done.stderr


@pytest.mark.attack("world-writable-folder-mounted")
@pytest.mark.parametrize("source", ["tmp/mine/libcuda.so", "opt/linked/libcuda.so", "tmp"])
def test_nothing_below_a_folder_of_everybody_is_mounted(
    node: Sim, generator: Callable[..., None], tmp_path: Path, run_module: Run, source: str
) -> None:
    as_nobody(node, "mkdir", "mine")
    as_nobody(node, "touch", "mine/libcuda.so")
    (node.root / "opt").mkdir()
    (node.root / "opt/linked").symlink_to("/tmp/mine")
    generator((node.root / source, "/usr/lib/libcuda.so"))
    path = tmp_path / "nvidia.yaml"
    answer = run_module(
        node, "cdi", path=str(path), driver_root=str(node.root), generator="nvidia-ctk"
    )
    assert answer.get("failed")
    assert f"give containers {node.root / source}:" in answer["msg"]
    assert f"everybody may write to {node.root / 'tmp'}," in answer["msg"]
    assert not path.exists()
