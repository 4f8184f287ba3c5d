# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A daemon that begins where another release ran managers: nothing is taken from their clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("running", exc_type=ImportError)
from mps_sharing import EXCLUSIVE_PROCESS, GPU, Client, Shared, eventually

MPS = "{resources: [{name: gpu, replicas: 3}]}"


def test_a_manager_of_another_release_goes_on_until_its_clients_have_ended(
    make_shared: Callable[..., Shared], standin: Path
) -> None:
    shared = make_shared(3, MPS, program=standin)
    uuid, node = shared.uuids()[0], shared.node
    before, theirs = shared.state(uuid), shared.root / uuid / "shm/theirs"
    theirs.touch()
    client = Client(shared, uuid)
    node.daemon.kill()
    node.daemon.wait()
    (shared.settings / f"{uuid}.settings.json").write_text('{"version": 2, "replicas": 3}')
    shared.start(MPS)
    eventually(lambda: "its limits change when its last client has ended" in node.logged())
    eventually(lambda: list(node.health(GPU).values()) == ["Unhealthy"] * 3)
    assert (client.living(), shared.state(uuid)["pid"]) == (True, before["pid"])
    client.end()
    shared.wait(GPU, 3)
    assert shared.state(uuid)["pid"] != before["pid"]
    assert [path.name for path in shared.settings.iterdir()] == [f"{uuid}.settings.json"]
    assert theirs.exists()  # in what containers have mounted
    assert shared.mode() == EXCLUSIVE_PROCESS
