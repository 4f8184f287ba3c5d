# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Room on file systems, and who listens on sockets, of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.room import Room


def test_a_file_system_that_can_not_be_written_is_seen(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder = tmp_path / "stiff"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "stiff", str(folder)], check=True)
    try:
        found = Room().space(str(folder / "cdi"))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    assert found.read_only
    assert found.free <= 1 << 20
