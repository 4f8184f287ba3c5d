# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keys of tests leave no agent of gpg behind that the next agent of the same keyring could run into."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.fakes.packages.pgp_keys import Key
from tests.support.helper_process import runs
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


def test_an_agent_is_gone_once_its_with_statement_has_ended(tmp_path: Path) -> None:
    """An agent that is to end takes no new connection, and stays until its last one is closed."""
    key, log = Key(tmp_path / "key", "ed25519"), tmp_path / "log"
    (key.home / "gpg-agent.conf").write_text(f"log-file {log}\n")
    running = key.agent()
    pid, path = running.__enter__()
    with socket.socket(socket.AF_UNIX) as connection, ThreadPoolExecutor(1) as pool:
        connection.connect(str(path))
        assert connection.recv(4096).startswith(b"OK")
        ending = pool.submit(running.__exit__, None, None, None)
        eventually(lambda: ending.done() or "SIGTERM received" in log.read_text())
        assert not ending.done()
        connection.close()
        ending.result()
    assert not runs(pid)
    assert not path.exists()
