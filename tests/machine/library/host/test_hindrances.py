# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files that even root can't replace, on this very machine: the error has what ends that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host

HOST = Host()
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
# Writes and removes a file in a namespace of mounts, and prints why it can't.
TRY = """\
import sys
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
path, host = sys.argv[1], Host()
print(host.find_hindrance(path))
for act in (lambda: host.write(path, "new", mode=0o644), lambda: host.remove(path)):
    try:
        act()
    except NodeError as error:
        print(error)
"""


@pytest.fixture(params=["i", "a"])
def attribute(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fixed(tmp_path: Path, attribute: str) -> Iterator[Path]:
    """Return a file with an attribute that keeps root from replacing it."""
    (path := tmp_path / "file").write_text("old")
    if subprocess.run(["chattr", f"+{attribute}", path], check=False).returncode:
        pytest.skip("this file system has no such attributes")
    yield path
    subprocess.run(["chattr", f"-{attribute}", path], check=True)


def test_a_file_with_an_attribute_is_named_with_the_command_that_takes_it_away(
    fixed: Path, attribute: str
) -> None:
    way = f"chattr -{attribute} {fixed}"
    found = HOST.find_hindrance(str(fixed))
    assert found is not None
    assert found.hint == way
    for act in (lambda: HOST.write(str(fixed), "new", mode=0o644), lambda: HOST.remove(str(fixed))):
        with pytest.raises(NodeError, match="Operation not permitted: ") as refused:
            act()
        assert refused.value.hint == f"{way}, then run again"
    assert fixed.read_text() == "old"
    assert os.listdir(fixed.parent) == ["file"]


def tried(script: str, path: Path) -> list[str]:
    """Return what becomes of a file in a namespace of mounts in which a script was run."""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-ec"]
    words += [f'{script}; exec "$@"', "sh", sys.executable, "-c", TRY, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_file_with_a_mount_over_it_is_named_with_umount(tmp_path: Path) -> None:
    (path := tmp_path / "file").write_text("old")
    _found, *errors = tried(f"mount --bind {path} {path}", path)
    assert len(errors) == 2
    for error in errors:
        assert "Device or resource busy" in error
        assert f"umount {path}" in error
    assert HOST.find_hindrance(str(path)) is None


def test_a_file_system_that_is_read_only_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "file").write_text("old")
    script = f"mount --bind {tmp_path} {tmp_path}; mount -o remount,ro,bind {tmp_path}"
    found, *errors = tried(script, path)
    assert "is read-only" in found
    assert len(errors) == 2
    for error in errors:
        assert f"findmnt --target {tmp_path}" in error
