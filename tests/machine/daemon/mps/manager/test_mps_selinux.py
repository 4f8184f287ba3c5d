# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Labels for SELinux: real attributes of real files, only whether SELinux is on is made up."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.model.mps.paths import Names
from gpu_plugin.mps import folders

from tests.fakes.mps.mps_running import unmount_below
from tests.support.folder import elsewhere

UUID = "GPU-00000000-0000-0000-0000-000000000000"
LABEL = b"system_u:object_r:container_file_t:s0\0"
SIZE = 1 << 20


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    """A device's places, where labels can be written; SELinux is off."""
    if os.geteuid() != 0:
        pytest.skip("labels can be written and mounts be made by root only")
    path = str(elsewhere("/dev/shm", "l-"))
    monkeypatch.setattr(folders, "SELINUX", Path(path, "enforce"))
    yield Names(UUID, f"{path}/r")
    unmount_below(Path(path))
    shutil.rmtree(path)


def label(path: str) -> bytes:
    try:
        return os.getxattr(path, "security.selinux")
    except OSError as error:
        if error.errno == errno.ENODATA:
            return b""
        raise


@pytest.fixture
def selinux(names: Names) -> None:
    """SELinux is on, whether or not it enforces."""
    folders.SELINUX.write_text("0")


@pytest.mark.usefixtures("selinux")
def test_containers_are_let_into_what_they_are_given_and_nowhere_else(names: Names) -> None:
    before = label(str(Path(names.root).parent))
    folders.make(names)
    assert folders.mount_shm(names, SIZE)
    assert os.path.ismount(names.shm)
    assert [label(one) for one in (names.pipe, names.shm)] == [LABEL, LABEL]
    assert [label(one) for one in (names.root, names.folder, names.log)] == [before] * 3


@pytest.mark.usefixtures("selinux")
def test_a_label_that_was_lost_is_written_again(names: Names) -> None:
    for _again in range(2):
        folders.make(names)
        folders.mount_shm(names, SIZE)
        assert [label(one) for one in (names.pipe, names.shm)] == [LABEL, LABEL]
        for path in (names.pipe, names.shm):
            os.setxattr(path, "security.selinux", b"system_u:object_r:tmpfs_t:s0\0")


def test_nothing_is_labelled_where_selinux_is_off(names: Names) -> None:
    before = label(str(Path(names.root).parent))
    folders.make(names)
    folders.mount_shm(names, SIZE)
    assert [label(one) for one in (names.pipe, names.shm)] == [before, before]


@pytest.mark.usefixtures("selinux")
def test_file_system_without_labels_is_named(names: Names) -> None:
    Path(names.ipc).mkdir(parents=True)
    subprocess.run(["mount", "-t", "ramfs", "none", names.ipc], check=True)
    with pytest.raises(NodeError) as caught:
        folders.make(names)
    told = str(caught.value)
    assert f"{names.pipe} can't have the SELinux label {LABEL.decode()[:-1]}: Operation not" in told
    assert "choose another root" in told
