# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The machine's seam, on this machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host

HOST = Host()


def test_write_replaces_in_one_step_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "new/file"
    assert HOST.write(str(path), "one") is None
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o600)
    inode = path.stat().st_ino
    saved = HOST.write(str(path), "two", backup=True)
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_ino != inode
    assert saved is not None
    assert Path(saved).read_text() == "one"
    assert sorted(os.listdir(path.parent)) == sorted(["file", Path(saved).name])


def test_nothing_else_is_ever_in_a_drop_in_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CRI-O reads each file of its folder, whatever the name, also one that a kill has left half written."""
    path = tmp_path / "crio.conf.d/zz-gpu-node.conf"
    there: list[list[str]] = []

    def replace(source: str, target: str) -> None:
        there.append(os.listdir(path.parent))
        rename(source, target)

    rename = os.replace
    monkeypatch.setattr(os, "replace", replace)
    HOST.write(str(path), "one")
    saved = HOST.write(str(path), "two", backup=True)
    assert there == [[], [path.name]]
    assert os.listdir(path.parent) == [path.name]
    assert saved is not None
    assert (Path(saved).parent, Path(saved).read_text()) == (tmp_path, "one")


def test_write_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    HOST.write(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_full_disk_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NodeError, match=r"cannot write .*No space left on device"):
        HOST.write(str(path), "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_lock_is_exclusive(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with (
        HOST.lock(path),
        pytest.raises(NodeError, match=f"held by process {os.getpid()} "),
        HOST.lock(path),
    ):
        pass
    with HOST.lock(path):
        pass


def test_a_link_is_replaced_and_removed_once(tmp_path: Path) -> None:
    link = str(tmp_path / "a/current")
    HOST.symlink("releases/1", link)
    HOST.symlink("releases/2", link)
    assert HOST.readlink(link) == "releases/2"
    assert HOST.remove(link)
    assert not HOST.remove(link)


def test_a_folder_is_moved_where_the_file_system_gives_it_no_other_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an overlay, which leaves the folders of its lower layers where they are."""

    def refuse(*_paths: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    (tmp_path / "one/lib").mkdir(parents=True)
    (tmp_path / "one/lib/file").write_text("text")
    (tmp_path / "one/link").symlink_to("lib")
    before = (tmp_path / "one/lib/file").stat().st_mtime_ns
    monkeypatch.setattr(os, "rename", refuse)
    HOST.move(str(tmp_path / "one"), str(tmp_path / "other"))
    assert not (tmp_path / "one").exists()
    assert (tmp_path / "other/link").readlink() == Path("lib")
    assert (tmp_path / "other/lib/file").stat().st_mtime_ns == before
