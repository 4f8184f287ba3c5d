# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who else than root decides what is below a path that an operator has chosen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.writers import who_writes

from tests.fakes.mps.tenants import NOBODY
from tests.support.folder import elsewhere

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that root alone may write to, as all above it."""
    made = elsewhere("/var/lib", "w-")
    yield made
    shutil.rmtree(made)


def test_a_folder_of_root_has_no_other_writers(folder: Path) -> None:
    assert who_writes(folder) == ""
    assert who_writes(str(folder / "not/there/yet")) == ""


@pytest.mark.attack("folder-of-a-user-above")
def test_a_parent_of_a_user_is_named_also_below_what_is_not_there(folder: Path) -> None:
    (folder / "theirs").mkdir()
    os.chown(folder / "theirs", NOBODY, NOBODY)
    problem = f"{folder}/theirs belongs to user {NOBODY}"
    assert who_writes(folder / "theirs/not/there") == problem
    (folder / "theirs/ours").mkdir()
    assert who_writes(folder / "theirs/ours", sticky=True) == problem


@pytest.mark.attack("folder-of-a-user-above")
def test_each_link_on_the_way_is_looked_at(folder: Path) -> None:
    for name in ("theirs", "ours"):
        (folder / name).mkdir()
    os.chown(folder / "theirs", NOBODY, NOBODY)
    (folder / "theirs/link").symlink_to(folder / "ours")
    (folder / "first").symlink_to("theirs/link")
    assert who_writes(folder / "first/x") == f"{folder}/theirs belongs to user {NOBODY}"
    (folder / "loop").symlink_to("loop")
    assert who_writes(folder / "loop") == f"{folder}/loop leads through too many links"


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_sticky_folder_is_safe_for_what_is_there_and_for_nothing_else(
    folder: Path, mode: int
) -> None:
    folder.chmod(mode)
    problem = f"others may write in {folder} (mode {mode:o})"
    assert who_writes(folder / "ours", sticky=True) == problem
    (folder / "ours").mkdir()
    assert who_writes(folder / "ours/new") == problem
    assert who_writes(folder / "ours/new", sticky=True) == ("" if mode & 0o1000 else problem)
    assert who_writes(folder, sticky=True) == problem


def test_a_group_that_may_write_is_told_unless_it_is_roots(folder: Path) -> None:
    folder.chmod(0o775)
    assert who_writes(folder) == ""
    os.chown(folder, 0, NOBODY)
    assert who_writes(folder) == f"others may write in {folder} (mode 775)"
