# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Kernel modules of other packagers on the RHEL family: refused by name, whatever they are called; dnf is genuine.

AlmaLinux's nvidia-open-kmod: almalinux-deploy#271, its relations by wiki.almalinux.org. RPM Fusion's and negativo17's
by akmods' kmodtool, which names packages by the kernel. ELRepo's kmod-nvidia has no nvidia-kmod among its provides.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import VERSION
from tests.fakes.played.rhel.rhel_systems import EL9, EL10, FEDORA, System
from tests.fakes.played.rpms import Rpm

KMOD = f"Provides: nvidia-kmod = 3:{VERSION}"
FILE = "lib/modules/{}/extra/{}nvidia.ko"


def modules(name: str, kernel: str, *relations: str, folder: str = "") -> Rpm:
    """Return a package with kernel modules for a kernel."""
    files = ((FILE.format(kernel, folder), f"{VERSION} open\n"),)
    return Rpm(name, f"{VERSION}-2", relations, files, epoch=3)


def almalinux(system: System) -> list[Rpm]:
    return [modules("nvidia-open-kmod", system.kernel, KMOD)]


def elrepo(system: System) -> list[Rpm]:
    return [modules("kmod-nvidia", system.kernel, folder="nvidia/")]


def negativo(system: System) -> list[Rpm]:
    return [Rpm("dkms-nvidia", f"{VERSION}-1", (KMOD,), epoch=3)]


def akmods_built(system: System) -> list[Rpm]:
    return [modules(f"kmod-nvidia-{system.kernel}", system.kernel, KMOD)]


def both(system: System) -> list[Rpm]:
    akmod = Rpm("akmod-nvidia", f"{VERSION}-1", (KMOD,), epoch=3)
    return [akmod, *elrepo(system)]


@pytest.mark.parametrize(
    ("system", "packager"),
    [
        pytest.param(EL10, almalinux, id="almalinux"),
        pytest.param(EL9, elrepo, id="elrepo", marks=pytest.mark.long),
        pytest.param(FEDORA, negativo, id="negativo17", marks=pytest.mark.long),
        pytest.param(FEDORA, akmods_built, id="akmods", marks=pytest.mark.long),
        pytest.param(EL9, both, id="two", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("secure_boot", [False, True], ids=["insecure", "secure"])
def test_modules_of_another_packager_are_refused_by_name_before_the_first_change(
    rhel: Machines, system: System, packager, secure_boot: bool
) -> None:
    node = rhel(system, secure_boot=secure_boot)
    packages = packager(system)
    node.offer("others", packages)
    names = sorted(package.name for package in packages)
    node.dnf("install", *names)
    before, files = node.installed(), node.read("/var/lib/gpu-node/nvidia_driver.json")
    pattern = rf"{', '.join(names)} of another.*source: preinstalled.*dnf remove {' '.join(names)}"
    for check_mode in (True, False):
        with pytest.raises(NodeError, match=pattern):
            planned(node, check_mode=check_mode)
    converge(node, state="absent")
    assert (node.installed(), node.read("/var/lib/gpu-node/nvidia_driver.json")) == (before, files)
    if not secure_boot:
        node.dnf("remove", *names)
        assert converge(node).steps == ()
        assert (node.loaded(), node.works()) == (f"{VERSION} open", True)


@pytest.fixture
def loaded(rhel: Machines) -> Rhel:
    """Return an AlmaLinux that has loaded its own modules, with NVIDIA's user space."""
    node = rhel(EL10)
    node.offer("others", almalinux(EL10))
    node.dnf("install", "nvidia-open-kmod", "nvidia-driver-cuda", "nvidia-persistenced")
    node.run(["modprobe", "nvidia"])
    return node


def test_loaded_modules_of_another_packager_are_left_alone_and_never_joined(loaded: Rhel) -> None:
    before = loaded.installed()
    assert reported(loaded)["source"] == "preinstalled"
    assert converge(loaded).steps == ()
    with pytest.raises(NodeError, match="nvidia-open-kmod of another packager"):
        planned(loaded, source="distribution")
    converge(loaded, state="absent")
    assert loaded.installed() == before


@pytest.mark.long
def test_new_kernel_without_others_modules_gets_none_beside_them(loaded: Rhel) -> None:
    loaded.dnf("install", f"kernel-core-{EL10.newer.rpartition('.')[0]}")
    loaded.boot(EL10.newer)
    before = loaded.installed()
    for bring in (planned, converge):
        with pytest.raises(NodeError, match="nvidia-open-kmod of another packager"):
            bring(loaded)
    assert loaded.installed() == before
