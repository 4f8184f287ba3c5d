# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An access control list that lets others write counts as a mode that does."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine import writers
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.own_files import OwnFiles

from tests.fakes.mps.tenants import NOBODY
from tests.support.folder import elsewhere

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

OWNER, USER, OWNING_GROUP, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
UNDEFINED = 0xFFFFFFFF
READ, WRITE = 4, 6


def set_acl(path: Path, tag: int, number: int, rights: int, mask: int = WRITE) -> None:
    """Have an access control list with one named entry, as setfacl writes it."""
    entries = [(OWNER, WRITE, UNDEFINED), (OWNING_GROUP, READ, UNDEFINED), (tag, rights, number)]
    entries += [(MASK, mask, UNDEFINED), (OTHER, READ, UNDEFINED)]
    packed = b"".join(writers.ACL_ENTRY.pack(*entry) for entry in sorted(entries))
    os.setxattr(path, writers.ACL, struct.pack("<I", 2) + packed)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder of root's, as all above it."""
    made = elsewhere("/var/lib", "a-")
    (made / "lib").mkdir()
    (made / "lib/daemon.py").touch()
    yield made
    shutil.rmtree(made)


@pytest.mark.attack("list-beside-the-mode")
@pytest.mark.parametrize("tag", [USER, GROUP])
@pytest.mark.parametrize("name", ["lib", "lib/daemon.py"])
def test_who_writes_by_a_list_is_seen_wherever_modes_are(folder: Path, name: str, tag: int) -> None:
    host, path = Host(), folder / name
    assert not any(file.is_open for file in host.sizes(str(folder)).values())
    set_acl(path, tag, NOBODY, WRITE)
    assert path.stat().st_gid == 0
    for status in (host.status(str(path)), host.itself(str(path))):
        assert status is not None
        assert status.is_open
    assert host.sizes(str(folder))[str(path)].is_open
    assert bool(writers.who_writes(folder / "lib")) == (name == "lib")
    shared = OwnFiles(host, {}, shared=[str(path)]).exposed()
    assert len(shared) == 1


@pytest.mark.parametrize(
    ("number", "rights", "mask"), [(NOBODY, READ, WRITE), (NOBODY, WRITE, READ), (0, WRITE, WRITE)]
)
def test_a_list_by_which_root_alone_writes_is_no_matter(
    folder: Path, number: int, rights: int, mask: int
) -> None:
    path = folder / "lib"
    set_acl(path, USER, number, rights, mask)
    status = Host().status(str(path))
    assert status is not None
    assert not status.is_open
    assert writers.who_writes(path) == ""
