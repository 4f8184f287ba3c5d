# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver whose next version is of another vendor: zypper changes the vendor of named packages only."""

from __future__ import annotations

import dataclasses

import pytest

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rpms import Rpm
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import Machines, Suse
from tests.fakes.played.suse.suse_archive import GA, NEW, OLD, SP7, signed, user_space

LONG = pytest.mark.long
MODULES = (signed(SP7, OLD, GA), signed(SP7, NEW, GA))
PARTS = ("nvidia-common-G06", "nvidia-modprobe", "nvidia-persistenced")


def of_vendor(vendor: str, packages: tuple[Rpm, ...]) -> tuple[Rpm, ...]:
    """Return the packages as a vendor builds them."""
    tag = f"Vendor: {vendor}"
    return tuple(
        dataclasses.replace(package, relations=(*package.relations, tag)) for package in packages
    )


NVIDIAS = of_vendor("NVIDIA Corporation", user_space(NEW))
BEFORE = {
    "sle": (*archive.base(SP7), *MODULES),
    "oss": of_vendor("openSUSE", user_space(OLD)),
    "cuda": (),
}
VENDORS = {**BEFORE, "cuda": NVIDIAS}
# Of the other vendor is what is depended on, alone.
HALF = {
    **BEFORE,
    "oss": (
        *BEFORE["oss"],
        *of_vendor("openSUSE", tuple(one for one in user_space(NEW) if one.name not in PARTS)),
    ),
    "cuda": tuple(package for package in NVIDIAS if package.name in PARTS),
}


def vendor(node: Suse, package: str) -> str:
    """Return the vendor of an installed package."""
    return str(node.run(["rpm", "-q", "--qf", "%{VENDOR}", package]).out)


@pytest.mark.parametrize("by_hand", [False, pytest.param(True, marks=LONG)])
@pytest.mark.parametrize("stage", [VENDORS, pytest.param(HALF, marks=LONG)], ids=["all", "half"])
def test_driver_changes_to_the_version_of_another_vendor(
    suse: Machines, stage: archive.Stage, by_hand: bool
) -> None:
    if by_hand:
        node = suse(BEFORE)
        node.zypper(
            "install", f"{MODULES[0].name} = {MODULES[0].version}", "nvidia-compute-utils-G06"
        )
    else:
        node = suse.driven(BEFORE)
    before = node.installed()
    assert vendor(node, "nvidia-common-G06") == "openSUSE"
    node.archive(stage)
    assert planned(node).reboot_required == converge(node).reboot_required
    assert node.installed() == before
    assert NEW in planned(node, version=NEW).steps[0].summary
    assert converge(node, version=NEW).steps == ()
    assert {name: node.installed()[name] for name in PARTS} == dict.fromkeys(PARTS, NEW)
    assert vendor(node, "nvidia-common-G06") == "NVIDIA Corporation"
    assert not node.held() & {"nvidia-common-G06", "nvidia-modprobe"}
    assert converge(node, version=NEW).steps == ()
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert node.installed() == (before if by_hand else {"kernel-default": before["kernel-default"]})
    assert node.held() == set()


@LONG
def test_driver_goes_back_to_the_version_of_the_vendor_before(suse: Machines) -> None:
    node = suse.driven(VENDORS, version=NEW)
    assert OLD in planned(node, version=OLD).steps[0].summary
    assert converge(node, version=OLD).steps == ()
    assert vendor(node, "nvidia-common-G06") == "openSUSE"
    assert node.installed()["nvidia-modprobe"] == NEW  # it may be newer
    assert converge(node, version=OLD).steps == ()
    assert converge(node, state="absent").steps == ()
    assert set(node.installed()) == {"kernel-default"}
