# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Control programs that are slow, lose answers or say what nobody understands, while there are clients."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nvsim.testing import start

from tests.fakes.daemon.running import kill
from tests.fakes.mps.mps_running import Client, Mps, living
from tests.support.paths import MPS_CONTROL
from tests.support.waiting import eventually


@pytest.fixture
def mps(tmp_path: Path) -> Iterator[Mps]:
    """Two GPUs whose control program answers as the file ``mood`` says."""
    if os.geteuid() != 0:
        pytest.skip("the compute mode can be set by root only")
    program = tmp_path / "control"
    script = (
        f"STANDIN_CLIENTS=1 STANDIN_MOOD={tmp_path}/mood STANDIN_SERVER={tmp_path}/server"
        f' exec {sys.executable} {MPS_CONTROL} "$@"'
    )
    (tmp_path / "server").write_text(str(os.getpid()))
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    made = Mps(start("h100-80", 2), program)
    yield made
    made.stop()
    made.sim.stop()


PROBLEMS = {
    "lost": "the control daemon does not answer",
    "slow": "the control daemon does not answer",
    "lines": "the control daemon's answer is not understood: ",
    "before": "no process ids in the answer",
    "refuse": "the control daemon's answer is not understood: 'Invalid value'",
}


@pytest.mark.parametrize("how", PROBLEMS)
def test_odd_answers_end_no_client(mps: Mps, tmp_path: Path, how: str) -> None:
    """Silence is watched for longer than a daemon without clients would be given."""
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--memory", "900M")
    before = mps.ready(uuid)
    client = Client(str(before["pipe"]))
    eventually(lambda: mps.status(uuid)["clients"] == 1)
    (tmp_path / "mood").write_text(how)
    assert PROBLEMS[how] in mps.failed(uuid)
    time.sleep(37 if how in ("lost", "slow") else 8)
    assert client.living()
    assert (mps.status(uuid)["daemon"], mps.status(uuid)["clients"]) == (before["daemon"], 1)
    (tmp_path / "mood").unlink()
    after = mps.ready(uuid)
    assert (after["daemon"], after["restarts"]) == (before["daemon"], 0)
    assert client.living()
    client.end()


def test_one_answer_that_is_late_is_no_failure(mps: Mps, tmp_path: Path) -> None:
    """As on a node under load: what others see of a device does not change with each answer."""
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--memory", "900M")
    mps.ready(uuid)
    (tmp_path / "mood").write_text("lost")
    time.sleep(3)
    (tmp_path / "mood").unlink()
    time.sleep(3)
    assert mps.log.read_text().count(f"MPS of {uuid}: ") == 2  # starting and ready
    assert mps.status(uuid)["restarts"] == 0


def test_a_change_waits_where_nobody_knows_whether_there_are_clients(
    mps: Mps, tmp_path: Path
) -> None:
    uuid = mps.uuid()
    mps.run(uuid, "--replicas", 4, "--memory", "900M")
    before = mps.ready(uuid)
    client = Client(str(before["pipe"]))
    eventually(lambda: mps.status(uuid)["clients"] == 1)
    (tmp_path / "mood").write_text("lines")
    mps.failed(uuid)
    mps.run(uuid, "--replicas", 2, "--memory", "900M")
    time.sleep(5)
    assert mps.status(uuid)["daemon"] == before["daemon"]
    assert client.living()
    client.end()
    (tmp_path / "mood").unlink()
    eventually(lambda: mps.status(uuid)["replicas"] == 2)


def test_device_whose_program_hangs_delays_no_other(mps: Mps, tmp_path: Path) -> None:
    """Each has its own waits, failures and back-off."""
    sick, well = mps.uuid(0), mps.uuid(1)
    (tmp_path / "mood").write_text(f"{sick} slow")
    mps.run(sick, "--replicas", 4, "--memory", "900M")
    eventually(lambda: mps.status(sick)["state"] == "starting")
    begun = time.monotonic()
    mps.run(well, "--replicas", 4, "--memory", "900M")
    daemon = mps.ready(well, seconds=6)["daemon"]
    print(f"ready beside one that hangs after {time.monotonic() - begun:.2f} s")
    begun = time.monotonic()
    kill(daemon)
    assert mps.ready(well, restarts=1, seconds=6)["daemon"] != daemon
    print(f"back beside one that hangs after {time.monotonic() - begun:.2f} s")
    assert mps.status(sick)["state"] != "ready"
    mps.drop(well)
    eventually(lambda: mps.mode(1) == 0)
    assert "does not answer" in eventually(lambda: mps.status(sick)["problem"])
    (tmp_path / "mood").unlink()
    mps.ready(sick, seconds=30)


def test_unforeseen_error_is_its_devices_alone(mps: Mps) -> None:
    """Such as a state that nobody wrote so."""
    sick, well = mps.uuid(0), mps.uuid(1)
    mps.run(well, "--replicas", 4, "--memory", "900M")
    before = mps.ready(well)
    client = Client(str(before["pipe"]))
    mps.managers[-1].kill()
    mps.managers[-1].wait()
    (mps.root / f"{sick}.state").mkdir()  # can be neither read nor replaced
    mps.run(sick, "--replicas", 4, "--memory", "900M")
    eventually(lambda: mps.status(sick).get("problem"))
    eventually(lambda: mps.status(well)["pid"] == mps.managers[-1].pid)
    assert mps.ready(well)["daemon"] == before["daemon"]
    assert client.living()
    assert living(mps.managers[-1].pid)
    (mps.root / f"{sick}.state").rmdir()
    mps.ready(sick, seconds=20)
    client.end()
