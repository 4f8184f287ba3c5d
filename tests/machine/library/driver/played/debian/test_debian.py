# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Debian 12 and 13, played with genuine apt and dpkg: all modules come from DKMS there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed

from tests.fakes.packages.debian import capability, converge
from tests.fakes.played.debian.debian_archive import PARTS, TOOLS, Debian, archive, driver, missing
from tests.fakes.played.debs import Deb, Mirror

OLD, NEW = "535.261.03", "550.163.01"
POINT = "535.274.02"
# The kernels of 12 and 13 at the time of their releases: packages.debian.org, linux-image-amd64.
RELEASES = {"bookworm": "6.1.0-37-amd64", "trixie": "6.12.38+deb13-amd64"}
KEY = "/var/lib/dkms/mok.pub"
Make = Callable[..., Debian]


@pytest.fixture(params=list(RELEASES))
def node(request: pytest.FixtureRequest, tmp_path: Path, pool: Path) -> Make:
    """Return a maker of a machine, from whether the archive has its kernel's headers."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)
    codename = request.param

    def make(*versions: str, headers: bool = True, more: Iterable[Deb] = ()) -> Debian:
        suites = ("", "-updates", "-backports")
        mirror = Mirror(
            tmp_path / "debian", pool, codename, origin="Debian", parts=PARTS, suites=suites
        )
        name = RELEASES[codename]
        mirror.publish((*archive(name, *versions, headers=headers), *more))
        return Debian(tmp_path / "node", mirror, name)

    return make


def test_fresh_machine_gets_the_open_modules_and_goes_back(node: Make) -> None:
    machine = node(NEW)
    before = machine.installed()
    left = converge(machine)
    assert (left.steps, left.reboot_required) == ((), ())
    assert (machine.loaded(), machine.works()) == (f"{NEW} open", True)
    assert {"libcuda1", "nvidia-open-kernel-dkms"} <= machine.held()
    assert converge(machine).steps == ()
    machine.unattended()
    machine.boot()
    assert machine.works()
    converge(machine, state="absent")
    assert (machine.installed(), machine.held()) == (before, set())


def test_kernel_without_headers_anywhere_is_refused_before_anything_changes(
    node: Make,
) -> None:
    machine = node(NEW, headers=False)
    machine.enable()
    before = machine.files()
    for check_mode in (True, False):
        one = capability(machine, check_mode=check_mode)
        with pytest.raises(
            NodeError, match=r"DKMS cannot build .* offered as linux-headers-.*load: false"
        ):
            one.plan(one.observe())
    assert machine.files() == before
    assert converge(machine, load=False, persistence=False).steps == ()


def test_modules_of_dkms_need_an_enrolled_key(node: Make) -> None:
    machine = node(NEW)
    machine.enable()
    machine.put(SECURE_BOOT[1:], "\x06\0\0\0\x01")
    before = machine.installed()
    for check_mode in (True, False):
        one = capability(machine, check_mode=check_mode)
        with pytest.raises(
            NodeError, match=r"Secure Boot is on.*install dkms and mokutil.*dkms generate_mok"
        ):
            one.plan(one.observe())
    assert machine.installed() == before
    machine.put(KEY[1:], "key")
    answer = Completed(1, f"{KEY} is already enrolled\n", "")
    setattr(machine, "_mokutil", lambda _words: answer)  # noqa: B010
    assert converge(machine).steps == ()
    assert machine.works()


def test_desktop_moves_to_backports_with_its_metapackage_and_back(node: Make) -> None:
    machine = node(OLD)
    machine.enable()
    name = (machine.read("/proc/sys/kernel/osrelease") or "").strip()
    machine.apt("install", "nvidia-driver", "nvidia-kernel-dkms", f"linux-headers-{name}")
    machine.boot()
    before = machine.installed()
    assert machine.works()
    machine.archive((*archive(name, OLD), *driver(NEW, "noble-backports")))
    assert converge(machine, version="550", adopt=True).steps == ()
    assert machine.installed()["nvidia-driver"] == f"{NEW}-1"
    machine.boot()
    assert (machine.loaded(), machine.works()) == (f"{NEW} proprietary", True)
    converge(machine, state="absent")
    assert (machine.installed(), machine.held()) == (before, set())


def test_branch_moves_to_its_newest_point_release_where_that_is_asked_for(
    node: Make,
) -> None:
    machine = node(OLD)
    converge(machine, version="535")
    name = (machine.read("/proc/sys/kernel/osrelease") or "").strip()
    machine.archive(archive(name, OLD, POINT, NEW), lists=False)
    assert converge(machine, version="535").steps == ()
    assert machine.installed()["nvidia-smi"] == f"{OLD}-1"
    before = machine.files()
    one = capability(machine, version="535", update=True, check_mode=True)
    install, hold = one.plan(one.observe()).steps
    assert (install.action, hold.action) == ("install", "hold")
    assert machine.files() == before
    left = converge(machine, version="535", update=True)
    assert (left.steps, f"{OLD} of the driver is loaded" in left.reboot_required[0]) == ((), True)
    there, held = machine.installed(), machine.held()
    parts = {"libcuda1", "libnvidia-ml1", "nvidia-open-kernel-dkms", "firmware-nvidia-gsp"}
    assert {there[one] for one in parts} == {f"{POINT}-1"}
    assert held >= parts
    assert converge(machine, version="535", update=True).steps == ()
    machine.boot()
    assert (machine.loaded(), machine.works()) == (f"{POINT} open", True)
