# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The locks of root's programs, and a user of the node who would take them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.services import mig
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import containers
from ansible_collections.gpu.node.plugins.module_utils._machine import locks
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._mig import boot as mig_boot
from ansible_collections.gpu.node.plugins.module_utils._node.machine import quarantine
from ansible_collections.gpu.node.plugins.module_utils._repair.machine import cases
from ansible_collections.gpu.node.plugins.module_utils._settings import capability as settings

from tests.fakes.mps.tenants import as_nobody
from tests.support import helper_process
from tests.support.folder import elsewhere
from tests.support.paths import REPOSITORY
from tests.support.waiting import LIMIT

LOCKS = (
    locks.NODE,
    *(room.LOCK for room in (mig, containers, quarantine, cases, settings)),
)
TAKE = """
import fcntl, os, sys
for path in sys.argv[1:]:
    try:
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        print(path)
    except PermissionError:
        pass
"""
HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


def marker_variables() -> dict[str, Any]:
    tasks = yaml.safe_load((REPOSITORY / "playbooks/tasks/in_service.yml").read_text())
    (found,) = (task["vars"] for task in tasks if "__in_service_lock" in task.get("vars", {}))
    return dict(found)


VARIABLES = marker_variables()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that every user reaches."""
    made = elsewhere("/var/lib", "l-")
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def mark(folder: Path, seen: str = "", limit: str = "60") -> subprocess.CompletedProcess[str]:
    """Write the marker of a change as the playbooks do."""
    script = VARIABLES["__in_service_exchange"]
    assert "flock -w 60 " in script
    paths = [str(folder / "state/in-service"), str(folder / "run/locks/in-service.lock")]
    script = script.replace("flock -w 60 ", f"flock -w {limit} ")
    words = ["sh", "-c", script, "sh", *paths, seen, "begun"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT)


@contextlib.contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold a lock in another process; yield its number."""
    with helper_process.start(
        ["python3", "-c", HOLD, path],
        ready=helper_process.printed(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process.pid
        process.communicate()


def taken(*paths: Path) -> list[str]:
    """Return the paths that a user without rights can lock."""
    process = as_nobody(TAKE, *map(str, paths))
    output, _errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, output
    return output.split()


def test_every_lock_is_in_a_folder_of_locks_alone() -> None:
    paths = [*LOCKS, VARIABLES["__in_service_lock"]]
    assert {os.path.dirname(path) for path in paths} == {"/run/gpu-node/locks"}
    assert len({*paths}) == len(paths)


@pytest.mark.attack("locks-of-everybody")
@pytest.mark.parametrize("before", [False, True], ids=["new", "open to others before"])
def test_a_user_without_rights_can_take_no_lock(folder: Path, before: bool) -> None:
    place, run = folder / "run/locks", folder / "run"
    paths = [place / os.path.basename(path) for path in LOCKS]
    if before:
        place.mkdir(parents=True)
        place.chmod(0o755)
        for path in (*paths, place / "in-service.lock"):
            path.touch()
            path.chmod(0o644)
    for path in paths:
        with Host().lock(str(path)):
            pass
    assert mark(folder).returncode == 0
    everything = [*paths, place / "in-service.lock"]
    assert taken(*everything, place) == []
    place.chmod(0o755)  # the files don't rely on it
    assert taken(*everything) == []
    # What everybody can lock delays nobody.
    for path in (folder / "state", run):
        with held(path):
            assert mark(folder, seen="0").returncode == 75


def test_the_holder_of_a_lock_is_named_with_its_command(folder: Path) -> None:
    path = folder / "locks/mig.lock"
    with Host().lock(str(path)):
        pass
    with held(path) as pid, pytest.raises(NodeError) as error, Host().lock(str(path)):
        pass
    assert str(error.value).startswith(f"{path} is held by process {pid} (python3 -c ")
    assert error.value.hint == "wait until that process has ended, then run again"


def test_a_change_waits_a_limited_time_for_the_marker_and_names_the_holder(folder: Path) -> None:
    assert mark(folder).returncode == 0
    path = folder / "run/locks/in-service.lock"
    with held(path) as pid:
        done = mark(folder, limit="0")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path} is held by process {pid} (python3 -c ")
    assert "Next step: wait" in done.stderr
    assert (folder / "state/in-service").read_text() == "begun"


def test_a_link_in_the_place_of_a_lock_is_refused(folder: Path) -> None:
    (folder / "locks").mkdir()
    (folder / "locks/mig.lock").symlink_to(folder / "victim")
    with pytest.raises(NodeError, match="cannot open"), Host().lock(str(folder / "locks/mig.lock")):
        pass
    assert not (folder / "victim").exists()


def test_services_give_up_a_lock_before_systemd_kills_them() -> None:
    assert "RuntimeMaxSec=900" in mig_boot.UNIT_TEXT
    assert mig.LOCK_SECONDS < 900
