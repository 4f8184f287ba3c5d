# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Kernels that come and boot on a played Ubuntu: the driver has modules for them, or says what is in the way."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT

from tests.fakes.packages.driver_runs import converge, planned, reported
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines
from tests.fakes.played.ubuntu.ubuntu_archive import K85, K86, NEW, NEWER, OLD

# Until 2022 the modules had an upper bound, too.
BOUNDS = pytest.mark.parametrize("upper", [False, pytest.param(True, marks=pytest.mark.long)])


@BOUNDS
def test_fresh_node_on_an_older_kernel_gets_a_driver_that_matches_itself(
    ubuntu: Machines, upper: bool
) -> None:
    node = ubuntu(archive.stage_b(upper=upper), K85)
    left = converge(node, version="580")
    assert (left.steps, left.reboot_required) == ((), ())
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    node.boot()
    assert node.works()


def test_version_is_the_one_that_the_modules_of_the_running_kernel_are_built_for(
    ubuntu: Machines,
) -> None:
    node = ubuntu((*archive.B, *archive.driver(OLD)), K85)
    assert converge(node, version="580").steps == ()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert "dkms" not in node.installed()


@pytest.mark.parametrize("hold", [True, pytest.param(False, marks=pytest.mark.long)])
@BOUNDS
def test_new_kernel_moves_the_driver_to_what_its_modules_need(
    ubuntu: Machines, upper: bool, hold: bool
) -> None:
    node = ubuntu.driven(archive.A, K85, version="580", hold=hold)
    node.archive(archive.stage_b(upper=upper))
    node.apt("install", "linux-generic")
    node.boot(K86)
    found = planned(node, version="580", hold=hold)
    (install,) = (step for step in found.steps if step.action == "install")
    assert archive.full(NEW) in install.summary
    left = converge(node, version="580", hold=hold)
    assert (left.steps, left.reboot_required) == ((), ())
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert "dkms" not in node.installed()


def test_exact_version_that_the_new_kernels_modules_are_not_built_for_comes_with_dkms(
    ubuntu: Machines,
) -> None:
    node = ubuntu.driven(archive.A, K85, version=OLD)
    node.archive((*archive.B, *archive.driver(OLD)))
    node.apt("install", "linux-generic")
    node.boot(K86)
    assert converge(node, version=OLD).steps == ()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)


def test_newest_kernel_gets_its_modules_in_the_same_transaction(ubuntu: Machines) -> None:
    node = ubuntu((*archive.A, *archive.kernel(K86), *archive.prebuilt(K86, OLD)), K85)
    assert converge(node).steps == ()
    assert node.works()
    assert node.boot() == K86
    assert node.works()
    assert converge(node).steps == ()


def test_without_holds_a_night_of_updates_brings_kernel_and_modules(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85, hold=False)
    node.archive(archive.B)
    node.unattended()
    assert node.boot() == K86
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert converge(node, hold=False).steps == ()


@pytest.mark.parametrize(
    ("old", "more"),
    [
        (False, {}),
        (True, {}),  # which would fit the running kernel
        (True, {"update": True}),
        (False, {"reload": "when_idle"}),
        pytest.param(False, {"load": False}, marks=pytest.mark.long),
    ],
)
def test_run_between_the_upgrade_and_the_boot_waits_for_the_boot(
    ubuntu: Machines, old: bool, more: dict[str, Any]
) -> None:
    node = ubuntu.driven(archive.A, K85, hold=False)
    node.archive((*archive.B, *(archive.driver(OLD) if old else ())))
    node.unattended()
    node.put(SECURE_BOOT[1:], "\x06\0\0\0\x01")
    before = node.installed()
    left = converge(node, hold=False, **more)
    words = f"the kernel {K86} has the modules of {NEW}, the running one has not"
    assert (left.steps, left.reboot_required) == ((), (words,))
    assert (node.installed(), node.loaded()) == (before, f"{OLD} open")
    assert not node.changes()
    assert node.boot() == K86
    assert converge(node, hold=False).steps == ()
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
    assert "linux-modules-nvidia-580-server-open-generic" in node.installed()


def test_driver_whose_modules_only_the_newer_kernel_has_is_not_exchanged_before_the_boot(
    ubuntu: Machines,
) -> None:
    names = ("nvidia-utils-580-server", "linux-modules-nvidia-580-server-open-generic")
    node = ubuntu(archive.A, K85)
    node.archive([one for one in archive.B if K85 not in one.name])
    node.enable()
    node.apt("install", *names)
    assert (node.loaded(), node.modules(K85)) == ("", [])
    left = converge(node, hold=False)
    assert [one for one in left.reboot_required if K86 in one]
    assert "dkms" not in node.installed()
    assert node.boot() == K86
    assert converge(node, hold=False).steps == ()
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)


def test_tracking_package_stays_where_dkms_must_build_meanwhile(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85, hold=False)
    node.archive(archive.G)  # the driver is ahead of its modules
    node.unattended()
    assert not node.works()
    left = converge(node, hold=False, reload="when_idle")
    assert (left.steps, left.reboot_required) == ((), ())
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)
    assert "linux-modules-nvidia-580-server-open-generic" in node.installed()
    node.archive(archive.G2)
    node.unattended()
    node.boot()
    assert converge(node, hold=False).steps == ()
    assert (node.loaded(), node.works()) == (f"{NEWER} open", True)


def test_with_holds_the_kernel_waits_for_the_driver(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85, hold_kernel=True)
    assert {"linux-generic", "linux-image-generic", "linux-headers-generic"} <= node.held()
    node.archive(archive.B)
    node.unattended()
    assert node.boot() == K85
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    converge(node)
    assert "linux-image-generic" not in node.held()


def test_kernel_that_would_boot_without_the_driver_is_told_with_what_helps(
    ubuntu: Machines,
) -> None:
    node = ubuntu.driven(archive.A, K85)
    node.archive(archive.B)
    node.unattended()
    left = converge(node)
    assert (left.steps, node.works()) == ((), True)
    (words,) = (one for one in left.warnings if K86 in one)
    assert f"its modules are built for {NEW}" in words
    assert "hold_kernel" in words
    assert reported(node)["node"]["kernels_without_driver"] == [K86]


def test_modules_that_cannot_be_installed_give_way_to_dkms(ubuntu: Machines) -> None:
    broken = archive.prebuilt(K85, OLD, signatures="6.8.0-85.85+1")
    node = ubuntu((archive.DKMS, *archive.kernel(K85), *archive.driver(OLD), *broken), K85)
    left = converge(node)
    assert left.steps == ()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert any("linux-signatures-nvidia" in one for one in left.warnings)


def test_tracking_package_that_cannot_be_installed_is_left_out(ubuntu: Machines) -> None:
    packages = [
        dataclasses.replace(one, fields=(("Depends", f"{dict(one.fields)['Depends']}, nowhere"),))
        if one.name.endswith("-generic")
        and one.name.startswith("linux-modules-nvidia-580-server")
        and "6.8.0" not in one.name
        else one
        for one in archive.A
    ]
    node = ubuntu(packages, K85)
    left = converge(node, hold=False)
    assert left.steps == ()
    assert node.works()
    assert "dkms" not in node.installed()
    assert any("can't be installed, and is left out" in one for one in left.warnings)


def test_modules_that_cannot_be_installed_are_an_error_with_secure_boot(ubuntu: Machines) -> None:
    broken = archive.prebuilt(K85, OLD, signatures="6.8.0-85.85+1")
    node = ubuntu((archive.DKMS, *archive.kernel(K85), *archive.driver(OLD), *broken), K85)
    node.enable()
    node.put(SECURE_BOOT[1:], "\x06\0\0\0\x01")
    with pytest.raises(NodeError, match=r"(?s)Secure Boot is on.*linux-signatures-nvidia"):
        planned(node)


def test_kernel_with_neither_modules_nor_headers_is_refused_before_anything_changes(
    ubuntu: Machines,
) -> None:
    node = ubuntu(archive.A, K85)
    node.archive(one for one in archive.C if K85 not in one.name)
    node.enable()
    node.apt("purge", f"linux-headers-{K85}", "linux-headers-generic", "linux-generic")
    before = node.installed()
    with pytest.raises(
        NodeError, match=f"headers are neither installed nor available as linux-headers-{K85}"
    ):
        converge(node)
    assert node.installed() == before


def test_kernels_of_long_ago_can_be_removed(ubuntu: Machines) -> None:
    kernels = [f"6.8.0-{number}-generic" for number in (83, 84, 85, 86)]
    packages = [archive.DKMS, *archive.driver(OLD)]
    for one in kernels:
        packages += [*archive.kernel(one, newest=one == kernels[0]), *archive.prebuilt(one, OLD)]
    node = ubuntu(packages, kernels[0])
    for one in kernels:
        newer = [deb for deb in packages if deb.source != "linux-meta"]
        node.archive([*newer, *(deb for deb in archive.kernel(one) if deb.source == "linux-meta")])
        node.apt("dist-upgrade")
        node.run(["apt-mark", "auto", f"linux-image-{one}"])
        assert node.boot() == one
        assert converge(node).steps == ()
        assert node.works()
    there = [one for one in kernels if f"linux-modules-nvidia-580-server-open-{one}" in node.held()]
    assert there == kernels[-2:]
    node.apt("autoremove")
    assert "linux-image-6.8.0-83-generic" not in node.installed()
    assert node.boot(kernels[-2]) == kernels[-2]
    assert node.works()


def test_newest_kernel_without_headers_gets_them_for_dkms(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    node.archive(archive.C)
    assert converge(node, version=NEW).steps == ()
    node.apt("install", f"linux-image-{K86}")
    assert node.modules(K86) == []
    assert converge(node, version=NEW).steps == ()
    assert node.boot() == K86
    assert (node.loaded(), node.works()) == (f"{NEW} open", True)
