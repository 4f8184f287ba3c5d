# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A plugin and a manager of another release: nothing is taken from the clients of the one before."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from tests.fakes.mps.mps_sharing import EXCLUSIVE_PROCESS, GPU, Client, Shared
from tests.support.helper_process import kill
from tests.support.waiting import eventually, unchanged

MPS = "{resources: [{name: gpu, replicas: 3}]}"


def test_upgrade_waits_for_no_client_and_touches_none(
    make_shared: Callable[..., Shared], standin: Path
) -> None:
    """Both processes are replaced, as the role does, and the files that they find are of the others."""
    shared = make_shared(3, MPS, program=standin)
    uuid, node = shared.uuids()[0], shared.node
    before, theirs = shared.state(uuid), shared.root / uuid / "shm/theirs"
    theirs.touch()
    client = Client(shared, uuid)
    kill(before["pid"], signal.SIGTERM)
    node.daemon.kill()
    (shared.settings / f"{uuid}.settings.json").write_text('{"version": 2, "replicas": 3}')
    shared.start(MPS)
    shared.wait(GPU, 3)
    eventually(lambda: shared.state(uuid)["pid"] != before["pid"])
    unchanged(shared.healthy, 3, node.looks)
    after = shared.state(uuid)
    assert (after["daemon"], after["clients"]) == (before["daemon"], 1)
    assert client.living()
    assert shared.left() == [f"{uuid}.settings.json"]
    assert theirs.exists()  # in what containers have mounted
    assert shared.mode() == EXCLUSIVE_PROCESS
    client.end()
