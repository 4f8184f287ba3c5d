# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the controller sends to the node."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.action.device_plugin import collect, fingerprint, pack


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in (
        "pyproject.toml",
        "src/gpu_plugin/main.py",
        "src/gpu_plugin/__pycache__/main.pyc",
        "src/gpu_plugin.egg-info/PKG-INFO",
        "build/lib/main.py",
        ".mypy_cache/x",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    (tmp_path / "shared.py").write_text("# shared\n")
    (root / "src/gpu_plugin/shared.py").symlink_to(tmp_path / "shared.py")
    return root


def test_sources_are_collected_and_leavings_are_not(tree: Path) -> None:
    assert sorted(collect(str(tree), "package")) == [
        "package/pyproject.toml",
        "package/src/gpu_plugin/main.py",
        "package/src/gpu_plugin/shared.py",
    ]


def test_archive_depends_on_names_and_contents_alone(tree: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.tar.gz", tmp_path / "2.tar.gz"
    files = collect(str(tree), "package")
    pack(files, str(first))
    before = fingerprint(files, "1")
    for path in files.values():
        os.utime(path, (1, 1))
        Path(path).chmod(0o600)
    pack(collect(str(tree), "package"), str(second))
    assert first.read_bytes() == second.read_bytes()
    assert fingerprint(collect(str(tree), "package"), "1") == before


def test_archive_holds_files_in_place_of_links(tree: Path, tmp_path: Path) -> None:
    path = tmp_path / "payload.tar.gz"
    pack(collect(str(tree), "package"), str(path))
    with tarfile.open(path) as archive:
        assert all(entry.isreg() and entry.mode == 0o644 for entry in archive)
        member = archive.extractfile("package/src/gpu_plugin/shared.py")
        assert member is not None
        assert member.read() == b"# shared\n"


@pytest.mark.parametrize("change", ["content", "name", "release"])
def test_every_change_has_its_own_fingerprint(tree: Path, change: str) -> None:
    before = fingerprint(collect(str(tree), "package"), "1")
    source = tree / "src/gpu_plugin/main.py"
    if change == "content":
        source.write_text("# other\n")
    elif change == "name":
        source.rename(source.with_name("other.py"))
    after = fingerprint(collect(str(tree), "package"), "2" if change == "release" else "1")
    assert after != before
