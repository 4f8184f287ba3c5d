# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What dnf 5 does otherwise, on a played Fedora whose dnf 5 is genuine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError

from tests.fakes.packages.driver_runs import capability, converge
from tests.fakes.played.rhel.played_rhel import Rhel
from tests.fakes.played.rhel.rhel_archive import BEFORE, VERSION, broken, build, index
from tests.fakes.played.rhel.rhel_bodies import NO_FILES
from tests.fakes.played.rhel.rhel_systems import FEDORA

pytestmark = [pytest.mark.long]
GUARD = "var/lib/dnf/system-repo.lock"
HOLDER = (
    "import fcntl, sys, time; held = open(sys.argv[1], 'a'); fcntl.lockf(held, fcntl.LOCK_EX); "
    "print('held', flush=True); time.sleep(600)"
)


@pytest.fixture
def fedora(rhel: Callable[..., Rhel]) -> Rhel:
    return rhel(FEDORA)


@contextmanager
def at_work(node: Rhel) -> Iterator[int]:
    """Hold the lock that dnf 5 takes, and give the process that does."""
    words = [sys.executable, "-c", HOLDER, str(node.root / GUARD)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as held:
        assert held.stdout is not None
        try:
            assert held.stdout.readline() == b"held\n"
            yield held.pid
        finally:
            held.kill()


def test_dnf5_at_work_is_named_and_not_waited_for_beyond_the_timeout(fedora: Rhel) -> None:
    with at_work(fedora) as process:
        one = capability(fedora, lock_timeout=0)
        with pytest.raises(NodeError, match=rf"longer than 0 s: the process {process} holds"):
            one.observe()
    assert converge(fedora).steps == ()


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_dnf5_cannot_install_is_refused_with_its_words(fedora: Rhel, check_mode: bool) -> None:
    fedora.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nexcludepkgs=nvidia-kmod-common\n")
    before = fedora.installed()
    one = capability(fedora, check_mode=check_mode)
    with pytest.raises(NodeError, match=r"(?s)dnf finds no way.*nvidia-kmod-common"):
        one.plan(one.observe())
    assert fedora.installed() == before


def test_dkms_that_is_excluded_is_not_looked_for_in_epel(fedora: Rhel) -> None:
    fedora.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\nexcludepkgs=dkms\n")
    one = capability(fedora, check_mode=True)
    with pytest.raises(NodeError, match=r"dkms.*own repositories have it.*excludepkgs"):
        one.plan(one.observe())


def test_exclusions_hold_though_our_locks_are_left_out_of_account(fedora: Rhel) -> None:
    converge(fedora, version="570")
    text = "[main]\ngpgcheck=0\nexcludepkgs=nvidia-driver-cuda-libs\n"
    fedora.put("etc/dnf/dnf.conf", text)
    one = capability(fedora, version="580", check_mode=True)
    with pytest.raises(NodeError, match=r"configuration: nvidia-driver-cuda-libs"):
        one.plan(one.observe())
    assert fedora.installed()["nvidia-driver-cuda"] == BEFORE


def test_lock_of_somebody_else_is_named(fedora: Rhel) -> None:
    converge(fedora, version="570", hold=False)
    fedora.dnf("versionlock", "add", "nvidia-driver-cuda-libs")
    one = capability(fedora, version="580", hold=False, check_mode=True)
    with pytest.raises(
        NodeError, match=r"(?s)nvidia-driver-cuda-libs.*is locked.*versionlock delete"
    ):
        one.plan(one.observe())


def test_driver_of_rpm_fusion_is_refused_by_name(fedora: Rhel) -> None:
    fusion = fedora.root / "fusion"
    conflicts = "Conflicts: nvidia-driver-cuda"
    for name in ("akmod-nvidia", "xorg-x11-drv-nvidia-cuda"):
        build(fusion, name, f"{VERSION}-1.fc44", NO_FILES, conflicts)
    index(fusion)
    fedora.repositories = {**fedora.repositories, "fusion": fusion}
    fedora.switch("fusion", on=True)
    fedora.dnf("install", "akmod-nvidia", "xorg-x11-drv-nvidia-cuda")
    one = capability(fedora, check_mode=True)
    words = r"akmod-nvidia, xorg-x11-drv-nvidia-cuda.*source: preinstalled.*dnf remove akmod-nvidia"
    with pytest.raises(NodeError, match=words):
        one.plan(one.observe())


def test_version_that_cannot_be_installed_is_undone_by_dnf5(fedora: Rhel, tmp_path: Path) -> None:
    converge(fedora, version="570")
    fedora.repositories = {**fedora.repositories, "more": broken(tmp_path / "more", FEDORA)}
    fedora.switch("more", on=True)
    with pytest.raises(NodeError, match="the previous ones were restored"):
        converge(fedora, version="590")
    assert fedora.installed()["nvidia-driver-cuda"] == BEFORE
    assert fedora.held() >= {"nvidia-driver-cuda", "kmod-nvidia-open-dkms"}
    assert converge(fedora, version="570").steps == ()
