# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Room on file systems, and who listens on sockets, of this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._machine.room import Room


def test_a_folder_that_is_yet_to_be_made_has_the_room_of_what_it_will_be_in(tmp_path: Path) -> None:
    here = Room().space(str(tmp_path))
    assert here.device == tmp_path.stat().st_dev
    assert here.free > 0
    assert not here.read_only
    assert Room().space(str(tmp_path / "opt/gpu-node")).device == here.device
    (tmp_path / "file").write_text("four")
    assert Room().space(str(tmp_path / "file/below")).device == here.device
    assert Room().size(str(tmp_path / "file")) == 4
    assert Room().size(str(tmp_path / "none")) == 0


def test_who_listens_on_a_socket_is_known(tmp_path: Path) -> None:
    path = str(tmp_path / "nvidia-gpu.sock")
    assert Room().listener(path) is None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert Room().listener(path) is None
        server.listen()
        assert Room().listener(path) == os.getpid()
    assert Room().listener(path) is None
