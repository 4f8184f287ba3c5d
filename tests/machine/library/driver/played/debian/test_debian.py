# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Debian 12 and 13, played with genuine apt and dpkg: all modules come from DKMS there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.in_force import (
    MODPROBE_FILE,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt_sources import (
    OWN_SOURCES,
)

from tests.fakes.packages.apt_nodes import missing
from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.played.apt_machine import TOOLS
from tests.fakes.played.debian.debian_archive import (
    KERNELS,
    SOURCE,
    Machines,
    PlayedDebian,
    archive,
    driver,
)
from tests.fakes.played.debs import Deb

OLD, NEW = "535.261.03", "550.163.01"
POINT = "535.274.02"
KEY = "/var/lib/dkms/mok.pub"
Make = Callable[..., PlayedDebian]


@pytest.fixture(params=["trixie", pytest.param("bookworm", marks=pytest.mark.long)])
def node(request: pytest.FixtureRequest, place: Path) -> Make:
    """Return a maker of a machine, from whether the archive has its kernel's headers."""
    if lacking := missing(TOOLS):
        pytest.skip(lacking)
    kernel = KERNELS[request.param]
    machines = Machines(place, request.param)

    def make(*versions: str, headers: bool = True) -> PlayedDebian:
        return machines(archive(kernel, *versions, headers=headers), kernel)

    return make


def of_ours(machine: PlayedDebian) -> dict[str, bytes]:
    """Return the files that are no package's."""
    places = tuple(machine.at(one) for one in ("/etc", "/var/lib/gpu-node"))
    return {path: data for path, data in machine.files().items() if path.startswith(places)}


def test_fresh_machine_gets_the_open_modules_and_goes_back(node: Make) -> None:
    machine = node(NEW)
    machine.apt("install", "dkms")
    machine.run(["apt-mark", "hold", "dkms"])
    before, files = machine.installed(), of_ours(machine)
    left = converge(machine)
    assert (left.steps, left.reboot_required) == ((), ())
    assert (machine.loaded(), machine.works()) == (f"{NEW} open", True)
    assert {"libcuda1", "nvidia-open-kernel-dkms"} <= machine.held()
    assert "Components: contrib non-free non-free-firmware" in (machine.read(OWN_SOURCES) or "")
    found = reported(machine)
    assert found["installed_version"] == found["loaded_version"] == NEW
    assert (found["loaded_module_type"], "dkms" in found["packages"]) == ("open", False)
    assert found["node"]["persistence_daemon"] == "active"
    assert "libcuda1" in found["node"]["held"]
    assert converge(machine).steps == ()
    machine.unattended()
    machine.boot()
    assert machine.works()
    left = converge(machine, state="absent")
    assert left.reboot_required == ("the driver is still loaded, though its packages are gone",)
    assert (machine.installed(), machine.held()) == (before, {"dkms"})
    assert of_ours(machine) == files
    machine.ran.clear()
    assert converge(machine, state="absent").steps == ()
    assert machine.changes() == []


def test_kernel_without_headers_anywhere_is_refused_before_anything_changes(
    node: Make,
) -> None:
    machine = node(NEW, headers=False)
    machine.enable()
    before = machine.files()
    for check_mode in (True, False):
        with pytest.raises(
            NodeError, match=r"DKMS can't build .* available as linux-headers-.*load: false"
        ):
            planned(machine, check_mode=check_mode)
    assert machine.files() == before
    assert converge(machine, load=False, persistence=False).steps == ()


def test_modules_of_dkms_need_an_enrolled_key(node: Make) -> None:
    machine = node(NEW)
    machine.enable()
    machine.put(SECURE_BOOT[1:], "\x06\0\0\0\x01")
    before = machine.installed()
    for check_mode in (True, False):
        with pytest.raises(
            NodeError, match=r"Secure Boot is on.*install dkms and mokutil.*dkms generate_mok"
        ):
            planned(machine, check_mode=check_mode)
    assert machine.installed() == before
    machine.put(KEY[1:], "key")
    machine.answers["mokutil"] = Completed(1, f"{KEY} is already enrolled\n", "")
    assert converge(machine).steps == ()
    assert machine.works()


def test_desktop_moves_to_backports_with_its_metapackage_and_back(node: Make) -> None:
    machine = node(OLD)
    machine.enable()
    kernel = machine.kernel
    machine.apt("install", "nvidia-driver", "nvidia-kernel-dkms", f"linux-headers-{kernel}")
    machine.boot()
    before = machine.installed()
    assert machine.works()
    machine.archive((*archive(kernel, OLD), *driver(NEW, "noble-backports")))
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
    converge(machine, version="535", source="distribution")  # where it is in no archive of Debian's
    machine.archive(archive(machine.kernel, OLD, POINT, NEW), lists=False)
    assert converge(machine, version="535").steps == ()
    assert machine.installed()["nvidia-smi"] == f"{OLD}-1"
    before = machine.files()
    install, hold = planned(machine, version="535", update=True).steps
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


def test_module_type_takes_what_belongs_to_the_other_along(done: PlayedDebian) -> None:
    """nvidia-open-kernel-support is one that the open modules bring on Debian."""
    support = Deb(
        "nvidia-open-kernel-support",
        f"{NEW}-1",
        (("Conflicts", "nvidia-kernel-dkms"),),
        SOURCE,
        component="contrib",
        suite="noble",
    )
    done.archive((*archive(done.kernel, NEW), support))
    done.apt("install", support.name)
    left = converge(done, kernel_modules="proprietary", reload="when_idle")
    assert (left.steps, left.reboot_required) == ((), ())
    assert (done.loaded(), done.works()) == (f"{NEW} proprietary", True)
    there = set(done.installed())
    assert not {support.name, "nvidia-open-kernel-dkms"} & there
    assert "nvidia-kernel-dkms" in there & done.held()


def test_nouveau_is_kept_away_in_the_initramfs_too_and_all_of_it_taken_back(
    debian: Machines,
) -> None:
    machine = debian(archive(KERNELS["trixie"], NEW), KERNELS["trixie"])
    image = f"boot/initrd.img-{machine.kernel}"
    nouveau = f"lib/modules/{machine.kernel}/kernel/drivers/gpu/drm/nouveau/nouveau.ko"
    for path in (image, nouveau, "usr/sbin/update-initramfs"):
        machine.put(path, "")
    before = of_ours(machine)
    rebuilt: list[tuple[str, ...]] = []

    def rebuild(words: tuple[str, ...]) -> Completed:
        rebuilt.append(words)
        os.utime(machine.at(f"/{image}"), (9e9, 9e9))
        return Completed(0, "", "")

    machine.answers["update-initramfs"] = rebuild
    assert converge(machine).steps == ()
    assert "blacklist nouveau\n" in (machine.read(MODPROBE_FILE) or "")
    assert converge(machine).steps == ()
    assert rebuilt == [("update-initramfs", "-u", "-k", machine.kernel)]
    converge(machine, state="absent")
    assert of_ours(machine) == before
    assert len(rebuilt) == 2


def test_fabric_manager_is_taken_where_a_source_has_one_and_else_told(debian: Machines) -> None:
    kernel = KERNELS["trixie"]
    for offered in (False, True):
        more = [Deb("nvidia-fabricmanager", f"{NEW}-1", component="contrib", suite="noble")]
        machine = debian.driven((*archive(kernel, NEW), *more[: int(offered)]), kernel)
        for name, value in (("vendor", "0x10de\n"), ("class", "0x068000\n")):
            machine.put(f"sys/bus/pci/devices/0000:05:00.0/{name}", value)
        left = converge(machine)
        assert left.steps == ()
        assert ("nvidia-fabricmanager" in machine.installed()) is offered
        told = "no fabric manager for Debian is known" in str(left.warnings)
        assert told is not offered
