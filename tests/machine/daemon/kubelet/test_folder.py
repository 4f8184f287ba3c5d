# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A folder that is made anew where only another process can write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_plugin.kubelet.listener import Folder

from tests.support import helper_process

# As systemd does it: all is read-only but what is named, and the folder is removed and made behind that.
SEALED = """
import os, subprocess, sys
from pathlib import Path
from gpu_plugin.kubelet.listener import Folder
def mount(*words):
    subprocess.run(["mount", *words], check=True)
top, folder = sys.argv[1], sys.argv[2]
mount("--bind", top, top)
mount("--bind", folder, folder)
mount("-o", "remount,ro,bind", top)
one = Folder(Path(folder))
print(one.lost(), flush=True)
sys.stdin.readline()
print(one.lost(), flush=True)
print(Folder(Path(folder)).lost(), flush=True)
"""


def test_a_folder_that_stays_is_not_lost(tmp_path: Path) -> None:
    one = Folder(tmp_path / "plugins")
    assert not one.lost()
    (tmp_path / "plugins").mkdir()
    assert not one.lost()
    (tmp_path / "plugins").rmdir()
    assert not one.lost()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_folder_made_anew_behind_the_mount_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "kubelet"
    folder.mkdir()
    words = ["unshare", "--mount", "--propagation", "slave", sys.executable, "-c", SEALED]
    with helper_process.start(
        [*words, tmp_path, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        ready=helper_process.printed("False"),
    ) as process:
        assert process.stdin
        folder.rmdir()
        folder.mkdir()
        process.stdin.write("\n")
        process.stdin.flush()
        # What could never write there would not be helped by another start.
        assert process.stdout.read() == "True\nFalse\n"
