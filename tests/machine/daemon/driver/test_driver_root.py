# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""In a pod without NVIDIA's runtime, the driver is the host's: its root is mounted at /driver-root."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY

SHIM = REPOSITORY / "tests/fakes/nvsim/build/libnvidia-ml.so.1"
CODE = """
import json, sys
from gpu_plugin.driver.nvml import preload
preload(tuple(sys.argv[1:]))
maps = open("/proc/self/maps").read().splitlines()
print(json.dumps(sorted({line.split()[-1] for line in maps if "libnvidia-ml" in line})))
"""
FOLDER = "usr/lib/x86_64-linux-gnu"


def loaded(*roots: object) -> list[str]:
    path = f"{REPOSITORY}/files/gpu_plugin/src"
    words = [sys.executable, "-c", CODE, *map(str, roots)]
    done = subprocess.run(
        words, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout)
    return found


def test_the_library_of_the_root_is_loaded(tmp_path: Path) -> None:
    library = tmp_path / FOLDER / "libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    shutil.copy(SHIM, library)
    assert loaded(tmp_path, "/") == [str(library)]
    assert loaded("/", tmp_path) == []  # the usual way is not ours


def test_links_lead_to_what_is_below_the_root_as_debians_alternatives_do(
    tmp_path: Path,
) -> None:
    """Seen from a container, /etc/alternatives is its own, and has nothing of the driver."""
    real = tmp_path / FOLDER / "nvidia/current/libnvidia-ml.so.1"
    alternative = tmp_path / "etc/alternatives/nvidia--libnvidia-ml.so.1"
    for one in (real, alternative):
        one.parent.mkdir(parents=True)
    shutil.copy(SHIM, real)
    alternative.symlink_to(f"/{FOLDER}/nvidia/current/libnvidia-ml.so.1")
    link = tmp_path / FOLDER / "libnvidia-ml.so.1"
    link.symlink_to("/etc/alternatives/nvidia--libnvidia-ml.so.1")
    assert loaded(tmp_path) == [str(real)]


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_a_root_without_a_driver_is_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert loaded(tmp_path / name) == []
