# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine that is one minute old: other package managers are at work while it is brought up."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages import api
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.api import Locked
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import Apt
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.dnf import Dnf

from tests.fakes.clock import Clock
from tests.fakes.library.fakes import FakeHost
from tests.fakes.packages.apt_nodes import AptNode, Repository
from tests.fakes.packages.apt_nodes import missing as missing_apt
from tests.fakes.packages.pgp_keys import Key
from tests.fakes.packages.rpm_nodes import (
    BASE,
    STARTED,
    SYSTEMS,
    RpmNode,
    _build,
    _indexed,
    missing,
)
from tests.support import helper_process
from tests.support.waiting import eventually

HALF = """
Package: half
Status: install ok half-configured
Maintainer: test <t@t>
Architecture: all
Version: 1
Description: test
"""
# Another process: it locks a file, says so, and ends what it has begun when it is let.
OTHER = """\
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
    with open(sys.argv[2]) as stream:
        text = stream.read().replace("half-configured", "installed")
    with open(sys.argv[2], "w") as stream:
        stream.write(text)
"""

# Until somebody writes into the gate, both versions are there.
HELD = f"""\
%post -n nvidia-slow -p <lua>
io.open("/{STARTED}", "w"):close()
io.open("/gate"):read()
"""


@pytest.fixture
def node(tmp_path: Path, key: Key) -> AptNode:
    if lacking := missing_apt():
        pytest.skip(lacking)
    distribution = Repository(tmp_path / "distribution", key)
    distribution.add("half", "1")
    distribution.publish()
    found = AptNode(tmp_path / "node", distribution)
    with (found.root / "var/lib/dpkg/status").open("a") as stream:
        stream.write(HALF)
    (found.root / "var/lib/dpkg/info/half.list").write_text("/.\n")
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of who waits for a lock; its ``at`` is what happens meanwhile."""
    one = Clock()
    monkeypatch.setattr(api, "time", one)
    return one


@contextlib.contextmanager
def ended(words: list[str], **given: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a process, which is gone at the end whatever happens."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with helper_process.start(
        words, text=True, **pipes, **given, ready=helper_process.executed
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def at_work(node: AptNode) -> Iterator[subprocess.Popen[str]]:
    """Have another process lock dpkg, which has begun something and ends it when its input does."""
    paths = [str(node.root / "var/lib/dpkg" / name) for name in ("lock-frontend", "status")]
    with ended([sys.executable, "-c", OTHER, *paths]) as other:
        assert other.stdout
        assert other.stdout.readline() == "locked\n"
        node.files[f"/proc/{other.pid}/comm"] = "unattended-upgr\n"
        node.files[f"/proc/{other.pid}/cgroup"] = "0::/system.slice/apt-daily-upgrade.service\n"
        yield other


def test_what_another_has_begun_is_not_taken_for_interrupted(node: AptNode, clock: Clock) -> None:
    with at_work(node) as other:
        clock.at = lambda _clock: other.communicate()
        found = Apt(node, 60, "the driver").packages()
    assert not any(one.broken for one in found.values())
    assert clock.slept == [api.RETRY_SECONDS]


def test_what_was_interrupted_is_seen_where_nobody_is_at_work(node: AptNode) -> None:
    assert Apt(node, 60, "the driver").packages()["half"].broken


@pytest.mark.parametrize("begun", [True, False])
def test_who_holds_the_lock_is_named_with_the_variable(node: AptNode, *, begun: bool) -> None:
    apt = Apt(node, 0, "the driver", "nvidia_driver_lock_timeout")
    with at_work(node) as other, pytest.raises(NodeError) as caught:
        apt.packages() if begun else apt.hold(["dpkg"])
    message = str(caught.value)
    assert f"{other.pid} (unattended-upgr, apt-daily-upgrade.service) holds the lock" in message
    assert "raise lock_timeout (nvidia_driver_lock_timeout)" in message


@pytest.mark.skipif(bool(missing("dnf")), reason=missing("dnf") or "-")
def test_upgrade_that_rpm_is_at_is_not_taken_for_interrupted(tmp_path: Path, clock: Clock) -> None:
    _build(tmp_path / "repo", {"nvidia-slow": "", BASE: ""}, "1.0", "1", 0)
    _build(tmp_path / "repo", {"nvidia-slow": ""}, "2.0", "1", 0, HELD)
    node = RpmNode(tmp_path / "node", _indexed(tmp_path / "repo"), SYSTEMS["dnf"])
    done = node._genuine(("dnf", "-y", "install", "nvidia-slow-1.0"))
    assert done.rc == 0, done.err
    gate = node.root / "gate"
    os.mkfifo(gate)
    words = node.in_folder(("dnf", "-y", "upgrade", "nvidia-slow"))
    with ended(words, stderr=subprocess.STDOUT) as other:
        begun = eventually(lambda: (node.root / STARTED).exists() or other.poll())
        assert begun is True, other.communicate()[0]
        with pytest.raises(NodeError, match=rf"longer than 0 s: {other.pid}\b.* holds the lock"):
            Dnf(node, 0, "the driver").packages()
        clock.at = lambda _clock: (gate.write_text("go on"), other.communicate())
        assert not Dnf(node, 60, "the driver").packages()["nvidia-slow"].broken
    assert clock.slept == [api.RETRY_SECONDS]
    assert node.installed()["nvidia-slow"] == "2.0"


def test_words_of_dnf5_about_the_lock_are_known() -> None:
    # libdnf5/base/transaction.cpp; dnf 4 is genuine above.
    said = "Transaction failed: Failed to obtain rpm transaction lock. Another transaction is in progress."
    host = FakeHost(commands={("dnf",): Completed(1, "", said), ("rpm",): "/var/lib/rpm\n"})
    host.holders["/var/lib/rpm/.rpm.lock"] = 4711
    host.files["/proc/4711/comm"] = "dnf-automatic\n"
    host.files["/proc/4711/cgroup"] = "0::/system.slice/dnf-automatic.service\n"
    words = r"4711 \(dnf-automatic, dnf-automatic.service\) holds the lock"
    with pytest.raises(Locked, match=words):
        Dnf(host, 0, "the driver").known("nvidia")
