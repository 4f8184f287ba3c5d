# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Galaxy takes the tarball, and REUSE finds who has written each file and under which licence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments.needed import made
from tests.release.build import build, present
from tests.release.galaxy import complaints, imported, licensed, unhurried


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    made("galaxy")


@pytest.mark.long
def test_galaxys_importer_takes_the_tarball_without_a_warning(tarball: Path) -> None:
    assert complaints(*imported(tarball)) == []


@pytest.mark.long
def test_a_program_that_the_importer_starts_takes_as_long_as_it_needs(tmp_path: Path) -> None:
    (tmp_path / "hurried.py").write_text(
        "import subprocess, sys\n"
        "words = [sys.executable, '-c', 'print(1)']\n"
        "process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)\n"
        "print(process.communicate(timeout=0), sys.argv[1:])\n"
    )
    argv = [sys.executable, *unhurried("hurried")[1:], "word"]
    process = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert process.stdout == "('1\\n', None) ['word']\n", process.stderr


@pytest.mark.long
def test_galaxys_importer_refuses_a_role_without_a_page(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    present(tree)
    (tree / "roles/mig/README.md").unlink()
    (said,) = complaints(*imported(build(tree, tmp_path, 0)))[-1:]
    assert "No role readme found" in said


@pytest.mark.long
def test_each_file_says_its_licence() -> None:
    assert complaints(*licensed()) == []
