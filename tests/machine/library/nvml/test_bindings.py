# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's bindings come from the device plugin's environment where the node's Python has none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.nvml.bindings import of_environment

COLLECTIONS = os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0]
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.gpu.node.plugins.module_utils._machine.nvml import bindings
bindings.FOLDERS = sys.argv[2]
bindings.of_environment.__defaults__ = (sys.argv[2],)
from ansible_collections.gpu.node.plugins.module_utils._machine.nvml import calls, real
print(getattr(calls.pynvml, "__file__", None), calls.pynvml is sys.modules.get("pynvml"))
print([one for one in sys.path if "site-packages" in one])
"""


def run(folders: str) -> list[str]:
    """Return what a Python without any package loads."""
    words = [sys.executable, "-I", "-S", "-B", "-c", CODE, COLLECTIONS, folders]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_the_environments_bindings_are_loaded_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "lib/python3.99/site-packages"
    folder.mkdir(parents=True)
    shutil.copy(pynvml.__file__, folder)
    (folder / "json.py").write_text("raise RuntimeError('of the environment')\n")
    assert run(str(tmp_path / "lib/python3*/site-packages")) == [f"{folder}/pynvml.py True", "[]"]


def test_without_an_environment_there_are_no_bindings(tmp_path: Path) -> None:
    assert run(str(tmp_path / "lib/python3*/site-packages"))[0].startswith("None")
    assert of_environment("pynvml", str(tmp_path)) is None


def test_bindings_that_are_broken_are_not_taken_for_missing(tmp_path: Path) -> None:
    (tmp_path / "broken_bindings.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        of_environment("broken_bindings", str(tmp_path))
