# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What dnf 5 does otherwise, on a played Fedora whose dnf 5 is genuine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import BEFORE, VERSION, broken
from tests.fakes.played.rhel.rhel_systems import FEDORA
from tests.fakes.played.rpms import FAILS, Rpm
from tests.support import helper_process

pytestmark = [pytest.mark.long]
GUARD = "var/lib/dnf/system-repo.lock"
# It lets go of the lock when the test ends, however that does.
HOLDER = (
    "import fcntl, sys; held = open(sys.argv[1], 'a'); fcntl.lockf(held, fcntl.LOCK_EX); "
    "print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def fedora(rhel: Machines) -> Rhel:
    return rhel(FEDORA)


@pytest.fixture
def older(rhel: Machines) -> Rhel:
    """Return a machine with an older branch, of which nothing is held."""
    return rhel.driven(FEDORA, version="570", hold=False)


@contextmanager
def at_work(node: Rhel) -> Iterator[int]:
    """Hold the lock that dnf 5 takes, and give the process that does."""
    words = [sys.executable, "-c", HOLDER, str(node.root / GUARD)]
    pipe = subprocess.PIPE
    with helper_process.start(
        words, stdin=pipe, stdout=pipe, ready=helper_process.printed("held")
    ) as held:
        try:
            yield held.pid
        finally:
            held.kill()


def test_dnf5_at_work_is_named_and_not_waited_for_beyond_the_timeout(fedora: Rhel) -> None:
    with at_work(fedora) as process:
        with pytest.raises(NodeError, match=rf"longer than 0 s: the process {process} holds"):
            planned(fedora, lock_timeout=0)
    assert planned(fedora).steps


def test_what_dnf5_cannot_install_is_refused_with_its_words(fedora: Rhel) -> None:
    fedora.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nexcludepkgs=nvidia-kmod-common\n")
    before = fedora.installed()
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=r"(?s)dnf finds no way.*nvidia-kmod-common"):
            planned(fedora, check_mode=check_mode)
    assert fedora.installed() == before


def test_dkms_that_is_excluded_is_not_looked_for_in_epel(fedora: Rhel) -> None:
    fedora.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nexcludepkgs=dkms\n")
    with pytest.raises(NodeError, match=r"dkms.*configuration excludes dkms.*excludepkgs"):
        planned(fedora)


def test_exclusions_hold_though_our_locks_are_left_out_of_account(rhel: Machines) -> None:
    fedora = rhel.driven(FEDORA, version="570")
    text = "[main]\ngpgcheck=0\nexcludepkgs=nvidia-driver-cuda-libs\n"
    fedora.put("etc/dnf/dnf.conf", text)
    with pytest.raises(NodeError, match=r"configuration: nvidia-driver-cuda-libs"):
        planned(fedora, version="580")
    assert fedora.installed()["nvidia-driver-cuda"] == BEFORE


def test_lock_of_somebody_else_is_named(older: Rhel) -> None:
    older.dnf("versionlock", "add", "nvidia-driver-cuda-libs")
    with pytest.raises(
        NodeError, match=r"(?s)nvidia-driver-cuda-libs.*is locked.*versionlock delete"
    ):
        planned(older, version="580", hold=False)


def test_driver_of_rpm_fusion_is_refused_by_name(fedora: Rhel) -> None:
    conflicts = ("Conflicts: nvidia-driver-cuda",)
    names = ("akmod-nvidia", "xorg-x11-drv-nvidia-cuda")
    fedora.offer("fusion", [Rpm(name, f"{VERSION}-1.fc44", conflicts) for name in names])
    fedora.dnf("install", "akmod-nvidia", "xorg-x11-drv-nvidia-cuda")
    words = r"akmod-nvidia, xorg-x11-drv-nvidia-cuda.*source: preinstalled.*dnf remove akmod-nvidia"
    with pytest.raises(NodeError, match=words):
        planned(fedora)


def test_version_that_cannot_be_installed_is_undone_by_dnf5(rhel: Machines) -> None:
    fedora = rhel.driven(FEDORA, version="570")
    fedora.offer("more", *broken(FEDORA, ("pre", FAILS)))
    with pytest.raises(NodeError, match="the previous ones were restored"):
        converge(fedora, version="590")
    assert fedora.installed()["nvidia-driver-cuda"] == BEFORE
    assert fedora.held() >= {"nvidia-driver-cuda", "kmod-nvidia-open-dkms"}
    assert converge(fedora, version="570").steps == ()
