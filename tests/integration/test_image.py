# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device plugin's container image: built without an index, and started as the manifest starts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpunode_tool.image import build
from gpunode_tool.podman import podman

pytestmark = pytest.mark.node

REPOSITORY = Path(__file__).resolve().parents[2]
BASE, IMAGE = "localhost/gpu-plugin-test-base", "localhost/gpu-plugin-test"


@pytest.fixture
def image(tmp_path: Path) -> Iterator[str]:
    """Build the image on Debian with venv added, from the wheelhouse alone."""
    node = build("trixie")
    (tmp_path / "Containerfile").write_text(
        f"FROM {node}\nRUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv\n"
    )
    podman("build", "--quiet", "--tag", BASE, str(tmp_path))
    wheelhouse = Path(os.environ.get("WHEELHOUSE") or REPOSITORY / ".cache/wheelhouse")
    podman(
        *("build", "--quiet", "--layers=false", "--tag", IMAGE, "--network", "none"),
        *("--file", str(REPOSITORY / "files/gpu_plugin/Containerfile")),
        *("--volume", f"{wheelhouse}:/wheels:ro"),
        *("--build-arg", f"BASE={BASE}"),
        *("--build-arg", "PIP_NO_INDEX=1", "--build-arg", "PIP_FIND_LINKS=/wheels"),
        str(REPOSITORY),
    )
    yield IMAGE
    podman("rmi", "--force", IMAGE, check=False)


def test_the_image_has_the_daemon_and_not_its_tools(image: str) -> None:
    def run(*words: str, entry: str = "/opt/gpu-node/bin/gpu-plugin") -> str:
        secured = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        return podman(
            "run", "--rm", "--network", "none", *secured, "--entrypoint", entry, image, *words
        )

    assert run("--version").startswith("gpu-plugin ")
    assert "--metrics-address" in run("run", "--help")
    python = "/opt/gpu-node/bin/python"
    run("-c", "import gpu_plugin.daemon, gpu_plugin.report.pages", entry=python)
    assert (
        run("-c", "import importlib.util as u; print(u.find_spec('pip'))", entry=python) == "None"
    )
