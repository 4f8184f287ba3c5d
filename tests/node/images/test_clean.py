# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the tests build is gone after make clean, images without a name included: seen in a podman store of our own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpunode_tool.testing import GPUNODE

from tests.support.paths import REPOSITORY

STORE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""
BUILD = """
import os
from pathlib import Path
from gpunode_tool import containers
print(containers.plugin([Path(os.environ["WHEELHOUSE"])]))
"""

pytestmark = [pytest.mark.node, pytest.mark.long]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let podman and the tool keep all that they make in a folder; nothing of this machine's is seen there."""
    (tmp_path / "storage.conf").write_text(STORE.format(folder=tmp_path))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf"))
    monkeypatch.setenv("GPUNODE_CACHE", str(tmp_path / "cache"))
    yield tmp_path
    subprocess.run(
        ["umount", "--recursive", tmp_path / "graph/overlay"], check=False, capture_output=True
    )
    shutil.rmtree(tmp_path / "graph", ignore_errors=True)


def podman(*words: str) -> list[str]:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_clean_leaves_no_image(store: Path) -> None:
    assert podman("images", "--all", "--quiet") == []
    subprocess.run([sys.executable, "-c", BUILD], check=True, capture_output=True)
    subprocess.run([GPUNODE, "image"], check=True, capture_output=True)
    names = podman("images", "--all", "--format", "{{.Repository}}")
    assert sorted(names) == [
        f"localhost/gpunode{one}" for one in ("", "-base", "-container-base", "-plugin")
    ]
    # As the Makefile's target does; that one removes this checkout's caches besides.
    assert "$(GPUNODE) clean" in (REPOSITORY / "Makefile").read_text()
    subprocess.run([GPUNODE, "clean"], check=True, capture_output=True)
    for what in (("images", "--all"), ("ps", "--all"), ("volume", "ls")):
        assert podman(*what, "--quiet") == [], what
    assert not Path(os.environ["GPUNODE_CACHE"]).exists()
