# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Control programs that are slow, lose answers or say what nobody understands, while there are clients."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.mps.mps_running import DEFAULT, STANDIN, Client, MakeMps, Mps, living
from tests.support.helper_process import kill
from tests.support.waiting import eventually, unchanged

SHARES = ("--replicas", 4, "--memory", "900M")
SHORT = ("--patience", 1, "--silent", 0)
PROBLEMS = {
    "lost": "the control daemon does not answer",
    "hangs": "the control daemon does not answer",
    "lines": "the control daemon's answer is not understood: ",
    "before": "no process ids in the answer",
    "refuse": "the control daemon's answer is not understood: 'Invalid value'",
}


@pytest.fixture
def mps(make_mps: MakeMps, tmp_path: Path) -> Mps:
    """Two GPUs whose control program answers as the file ``mood`` says."""
    (tmp_path / "server").write_text(str(os.getpid()))
    files = {"STANDIN_MOOD": tmp_path / "mood", "STANDIN_SERVER": tmp_path / "server"}
    return make_mps(2, command=STANDIN, STANDIN_CLIENTS=1, **files)


def test_odd_answers_end_no_client(mps: Mps, tmp_path: Path) -> None:
    """A daemon without clients would be given no time at all to be silent."""
    uuid = mps.uuid()
    mps.run(uuid, *SHARES, *SHORT)
    before = mps.ready(uuid)
    client = Client(str(before["pipe"]))
    eventually(lambda: mps.status(uuid)["clients"] == 1)
    for how, problem in PROBLEMS.items():
        (tmp_path / "mood").write_text(how)
        eventually(lambda problem=problem: problem in mps.status(uuid)["problem"])
        unchanged(
            lambda: [mps.status(uuid)[one] for one in ("state", "daemon", "clients")],
            ["failed", before["daemon"], 1],
            lambda: mps.asked(uuid),
        )
        assert client.living()
        (tmp_path / "mood").unlink()
        after = mps.ready(uuid)
        assert (after["daemon"], after["restarts"]) == (before["daemon"], before["restarts"])
    assert client.living()


def test_a_server_that_takes_nobody_since_a_fault_is_waited_for(mps: Mps, tmp_path: Path) -> None:
    """A client that catches the error and stays, as a notebook does, would make the GPU a black hole."""
    uuid = mps.uuid()
    mps.run(uuid, *SHARES, *SHORT)
    before = mps.ready(uuid)
    client = Client(str(before["pipe"]))
    eventually(lambda: mps.status(uuid)["clients"] == 1)
    (tmp_path / "mood").write_text("fault")
    problem = mps.failed(uuid)
    assert problem == (
        f"its MPS server {os.getpid()} had a fatal fault, and takes nobody until these clients have ended: "
        f"{client.process.pid}"
    )
    assert client.living()
    (tmp_path / "mood").unlink()
    after = mps.ready(uuid)
    assert (after["daemon"], after["restarts"]) == (before["daemon"], before["restarts"])


def test_one_answer_that_is_late_is_no_failure(mps: Mps, tmp_path: Path) -> None:
    """As on a node under load: what others see of a device does not change with each answer."""
    uuid = mps.uuid()
    mps.run(uuid, *SHARES)
    mps.ready(uuid)
    told = f"MPS of {uuid}: "
    eventually(lambda: mps.log.read_text().count(told), 2)  # starting and ready
    for change in (lambda: (tmp_path / "mood").write_text("lost"), (tmp_path / "mood").unlink):
        change()
        unchanged(lambda: mps.log.read_text().count(told), 2, lambda: mps.asked(uuid), 5)
    assert mps.status(uuid)["restarts"] == 0


def test_a_change_waits_where_nobody_knows_whether_there_are_clients(
    mps: Mps, tmp_path: Path
) -> None:
    uuid = mps.uuid()
    mps.run(uuid, *SHARES, *SHORT)
    before = mps.ready(uuid)
    client = Client(str(before["pipe"]))
    eventually(lambda: mps.status(uuid)["clients"] == 1)
    (tmp_path / "mood").write_text("lines")
    mps.failed(uuid)
    mps.run(uuid, "--replicas", 2, "--memory", "900M")
    unchanged(lambda: mps.status(uuid)["daemon"], before["daemon"], mps.rounds, 5)
    assert (client.living(), mps.status(uuid)["state"]) == (True, "failed")  # and not ending
    client.end()
    (tmp_path / "mood").unlink()
    eventually(lambda: mps.status(uuid)["replicas"] == 2)


def test_device_whose_program_hangs_delays_no_other(mps: Mps, tmp_path: Path) -> None:
    """Each has its own waits, failures and back-off."""
    sick, well = mps.uuid(0), mps.uuid(1)
    (tmp_path / "mood").write_text(f"{sick} hangs")
    mps.run(sick, *SHARES, *SHORT)
    eventually(lambda: mps.asked(sick))
    mps.run(well, *SHARES)
    daemon = mps.ready(well)["daemon"]
    kill(daemon)
    eventually(lambda: mps.status(well)["daemon"] not in (0, daemon))
    mps.ready(well)
    mps.drop(well)
    eventually(lambda: mps.mode(1) == DEFAULT)
    assert "does not answer" in eventually(lambda: mps.status(sick)["problem"])
    assert f"MPS of {sick}: ready" not in mps.log.read_text()
    (tmp_path / "mood").unlink()
    mps.ready(sick)


def test_unforeseen_error_is_its_devices_alone(mps: Mps) -> None:
    """Such as a state that nobody wrote so."""
    sick, well = mps.uuid(0), mps.uuid(1)
    mps.run(well, *SHARES)
    before = mps.ready(well)
    client = Client(str(before["pipe"]))
    mps.managers[-1].kill()
    mps.managers[-1].wait()
    (mps.root / f"{sick}.state").mkdir()  # can be neither read nor replaced
    mps.run(sick, *SHARES)
    eventually(lambda: mps.status(sick).get("problem"))
    eventually(lambda: mps.status(well)["pid"] == mps.managers[-1].pid)
    assert mps.ready(well)["daemon"] == before["daemon"]
    assert client.living()
    assert living(mps.managers[-1].pid)
    (mps.root / f"{sick}.state").rmdir()
    mps.ready(sick)
