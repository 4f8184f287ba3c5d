# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What of a driver that somebody else has installed is taken over, as far as names and versions tell."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import Policy
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import Installed
from ansible_collections.gpu.node.plugins.module_utils._driver.families import rhel, ubuntu
from ansible_collections.gpu.node.plugins.module_utils._driver.families.debian import DEBIAN
from ansible_collections.gpu.node.plugins.module_utils._driver.packages import adoption
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Offer,
    Requirements,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record

from tests.fakes.packages.driver_nodes import DESIRED, actions, node, package, planned, with_options

KERNEL = "6.14.0-37-generic"
RHEL = rhel.RHEL.names(Offer(), Requirements(kernel="5.14.0-570.el9.x86_64"))


def installed_by_hand(**changes: object):  # type: ignore[no-untyped-def]
    """Return an EL 9 node with a driver from NVIDIA's installer."""
    names = (*RHEL.relevant, "dkms")
    return node(
        distribution="rocky",
        codename="9",
        names=RHEL,
        policies={name: Policy("580.95.05-1", ("580.95.05-1",)) for name in names},
        nvidia_installer=True,
        runfile=Installed(Version("580.65.06")),
        **changes,
    )


def test_installers_driver_gives_way_with_dnf_too() -> None:
    components = RHEL.user_space
    with pytest.raises(NodeError, match=r"source: preinstalled.*adopt: true"):
        planned(installed_by_hand(), components=components)
    steps = actions(installed_by_hand(), components=components, adopt=True, persistence=False)
    assert steps[:3] == ["adopt", "uninstall", "install"]


def test_packages_of_others_are_taken_over_with_apt_only() -> None:
    there = {"cuda-drivers": package()}
    wanted = with_options(DESIRED, adopt=True)
    assert node(packages=there).taken(wanted.adopt) == {"cuda-drivers"}
    assert node(packages=there, names=RHEL).taken(wanted.adopt) == frozenset()
    assert "adopt" in adoption.advice(DEBIAN.traits, DESIRED.adopt, DESIRED.source.name)
    assert "source: repository" in adoption.advice(DEBIAN.traits, wanted.adopt, wanted.source.name)
    assert adoption.advice(rhel.RHEL.traits, DESIRED.adopt, DESIRED.source.name) == ""


@pytest.mark.parametrize(
    ("there", "adopted", "components", "ending"),
    [
        (["libnvidia-compute-580"], [], (), ""),
        (["libnvidia-compute-580-server"], [], (), "-server"),
        (["libnvidia-compute"], [], (), "-server"),
        ([], ["nvidia-dkms-580-open 1"], (), ""),
        (["libnvidia-compute-580"], [], ("nvidia-utils-580-server",), "-server"),
    ],
)
def test_branch_of_a_desktop_stays_one(
    there: list[str], adopted: list[str], components: tuple[str, ...], ending: str
) -> None:
    record = Record(adopted=frozenset(adopted))
    wanted = with_options(DESIRED, adopt=not adopted, components=components)
    assert ubuntu.UBUNTU.ending(there, record, wanted) == ending


def test_desktop_that_nobody_took_over_leaves_the_names_as_they_are() -> None:
    assert ubuntu.UBUNTU.ending(["libnvidia-compute-580"], Record(), DESIRED) == "-server"


@pytest.mark.parametrize(
    ("name", "tracks"),
    [
        ("linux-modules-nvidia-580-open-generic-hwe-24.04", True),
        ("linux-modules-nvidia-580-server-open-gcp-6.17", True),
        ("linux-modules-nvidia-580-aws", True),
        ("linux-modules-nvidia-580-server-open-6.17.0-1021-gcp", False),
        ("linux-modules-nvidia-580-open-7.0.0-30-generic", False),
    ],
)
def test_tracking_packages_are_told_by_their_names(name: str, tracks: bool) -> None:
    assert bool(ubuntu.TRACKING.fullmatch(name)) is tracks


@pytest.mark.parametrize(
    ("kind", "ending", "tracks"),
    [
        ("open", "-server", ["linux-modules-nvidia-580-server-open-generic-hwe-24.04"]),
        ("proprietary", "-server", ["linux-modules-nvidia-580-server-aws"]),
        ("open", "", ["linux-modules-nvidia-580-open-generic"]),
        ("proprietary", "", []),
    ],
)
def test_tracking_packages_that_are_there_are_those_of_branch_and_type_without_any_metapackage(
    kind: str, ending: str, tracks: list[str]
) -> None:
    names = ubuntu.UBUNTU.names(Offer(), Requirements(Version("580"), kind, KERNEL, ending=ending))
    there = (
        "linux-modules-nvidia-580-server-open-generic-hwe-24.04",
        "linux-modules-nvidia-580-server-aws",
        "linux-modules-nvidia-580-open-generic",
        f"linux-modules-nvidia-580-server-open-{KERNEL}",
    )
    observed = node(kernel=KERNEL, names=names, packages=dict.fromkeys(there, package()))
    assert ubuntu.tracking(observed, kind) == tracks
