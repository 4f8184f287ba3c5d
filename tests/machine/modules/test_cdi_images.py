# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Without NVIDIA's hook program, images of both glibc families find the driver's libraries, whatever the node is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nvsim.testing import VERSION, Sim, start

from tests.machine.modules import images, runc_container

Run = Callable[..., dict[str, Any]]
NODES = {"debian": f"{images.TRIPLET}/nvidia/current", "rpm": "usr/lib64"}
IMAGES = {"debian": images.debian, "rpm": images.rpm}
NAMES = ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1")
pytestmark = pytest.mark.skipif(
    shutil.which("runc") is None or os.geteuid() != 0, reason="needs root and runc"
)


@pytest.fixture(params=list(NODES))
def node(request: pytest.FixtureRequest) -> Iterator[Sim]:
    """Return a node with the driver's libraries where the packages of a family keep them."""
    with start("a100-40", 1) as sim:
        for stem in ("libcuda", "libnvidia-ml"):
            file = sim.root / NODES[request.param] / f"{stem}.so.{VERSION}"
            images.library(file)
            (file.parent / f"{stem}.so.1").unlink(missing_ok=True)
            (file.parent / f"{stem}.so.1").symlink_to(file.name)
        yield sim


@pytest.fixture(params=list(IMAGES))
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return IMAGES[request.param](tmp_path)


@pytest.fixture
def load(node: Sim, image: Path, tmp_path: Path, run_module: Run) -> Callable[..., Any]:
    """Return a function that loads libraries in a container, with a specification that is made so."""

    def run(*names: str, **args: Any) -> Any:
        path = tmp_path / "cdi/nvidia.yaml"
        values = {"path": str(path), "driver_root": str(node.root), "hooks": "never", **args}
        answer = run_module(node, "cdi", **values)
        assert not answer.get("failed"), answer["msg"]
        edits = json.loads(path.read_text())["containerEdits"]
        return runc_container.run_image(tmp_path, image, edits, "/usr/bin/load", *names)

    return run


def test_libraries_load_in_images_of_both_families(load: Callable[..., Any]) -> None:
    done = load(*NAMES)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("image", ["debian", "rpm"], indirect=True)
def test_no_folder_serves_both_families(
    load: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    mine, other = f"/{images.TRIPLET}", "/usr/lib64"
    if request.node.callspec.params["image"] == "rpm":
        mine, other = other, mine
    assert load(*NAMES, library_folders=[mine]).returncode == 0
    done = load("libcuda.so.1", library_folders=[other])
    assert done.returncode == 1
    assert "libcuda.so.1: cannot open shared object file" in done.stdout
