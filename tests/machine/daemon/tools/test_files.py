# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Finding L8: files are there as a whole or not at all, and nothing is left beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.tools import files

LARGE = "x" * (1 << 20)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("file systems can't be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("durable", [False, True])
def test_without_room_the_old_file_stays_and_nothing_else(small: Path, durable: bool) -> None:
    path = small / "state.json"
    files.replace(path, "old")
    with pytest.raises(OSError, match="No space left"):
        files.replace(path, LARGE, durable=durable)
    assert [(one.name, one.read_text()) for one in small.iterdir()] == [("state.json", "old")]
    files.replace(path, "new", durable=durable)
    assert [(one.name, one.read_text()) for one in small.iterdir()] == [("state.json", "new")]


def test_what_a_killed_process_left_is_replaced_and_no_link_is_followed(tmp_path: Path) -> None:
    path, theirs = tmp_path / "state.json", tmp_path / "theirs"
    theirs.write_text("theirs")
    (tmp_path / f".state.json.{os.getpid()}").symlink_to(theirs)
    path.symlink_to(theirs)
    files.replace(path, "ours")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["state.json", "theirs"]
    assert (path.read_text(), path.is_symlink(), theirs.read_text()) == ("ours", False, "theirs")


def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path) -> None:
    """As strace sees it: what a loss of power leaves can't be tried here."""
    strace = "/usr/bin/strace"
    if not os.access(strace, os.X_OK):
        pytest.skip("no strace")
    code = (
        "import sys, pathlib; from gpu_plugin.tools import files; "
        f"files.replace(pathlib.Path({str(tmp_path / 'a')!r}), 'text', durable=True)"
    )
    words = [strace, "-f", "-e", "trace=fsync,rename", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "fsync" not in done.stderr + done.stdout and done.returncode:
        pytest.skip("strace may not look here")
    calls = [line.partition("(")[0] for line in done.stderr.splitlines() if "(" in line]
    assert calls[-2:] == ["fsync", "rename"]
