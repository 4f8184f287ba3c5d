# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Galaxy takes the tarball, and REUSE finds who has written each file and under which licence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environments.needed import made
from tests.release.build import build, present
from tests.release.galaxy import complaints, imported, licensed


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    made("galaxy")


def test_galaxys_importer_takes_the_tarball_without_a_warning(tarball: Path) -> None:
    assert complaints(*imported(tarball)) == []


def test_galaxys_importer_refuses_a_role_without_a_page(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    present(tree)
    (tree / "roles/mig/README.md").unlink()
    (said,) = complaints(*imported(build(tree, tmp_path, 0)))[-1:]
    assert "No role readme found" in said


def test_each_file_says_its_licence() -> None:
    assert complaints(*licensed()) == []
