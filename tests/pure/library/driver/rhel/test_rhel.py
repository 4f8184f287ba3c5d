# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names of packages in the RHEL family, and whose packages stay."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base import distributions
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import Policy
from ansible_collections.gpu.node.plugins.module_utils._driver.families.rhel import (
    RHEL,
    is_precompiled,
    of_kernel,
    version_of,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Offer,
    Requirements,
)

from tests.fakes.packages.driver_nodes import actions, changed, node, package
from tests.fakes.played import recorded_packages as recorded

EL9 = "5.14.0-570.el9.x86_64"


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ("5.14.0-570.12.1.el9_6.x86_64", "kernel-devel-5.14.0-570.12.1.el9_6.x86_64"),
        ("5.14.0-570.el9.aarch64+64k", "kernel-64k-devel-5.14.0-570.el9.aarch64"),
        ("5.15.0-310.185.4.el9uek.x86_64", "kernel-uek-devel-5.15.0-310.185.4.el9uek.x86_64"),
        ("6.1.141-155.222.amzn2023.x86_64", "kernel-devel-6.1.141-155.222.amzn2023.x86_64"),
        ("6.12.37-61.105.amzn2023.x86_64", "kernel6.12-devel-6.12.37-61.105.amzn2023.x86_64"),
    ],
)
def test_headers_are_those_of_the_kernels_variant(kernel: str, found: str) -> None:
    assert RHEL.names(Offer(), Requirements(kernel=kernel)).headers.form.format(kernel) == found


# Names of Red Hat's, as the tests of mizdebsk/radii have them, and of NVIDIA's, as its spec makes them.
KMODS = (
    "kmod-nvidia-open-580.178.04-6.12.0-211.50.1",
    "kmod-nvidia-open-580.178.04-6.12.0-211.51.1",
    "kmod-nvidia-open-595.58.03-6.12.0-211.51.1",
    "kmod-64k-nvidia-open-580.178.04-6.12.0-211.51.1",
    "kmod-nvidia-570.195.03-6.12.0-211.51.1",
)
OTHERS = ("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms", "kmod-nvidia-open", "kmod-kvdo")


@pytest.mark.parametrize(
    ("kernel", "kind", "found"),
    [
        ("6.12.0-211.51.1.el10_2.x86_64", "open", [KMODS[2], KMODS[1]]),
        ("6.12.0-211.50.1.el10_2.x86_64", "open", [KMODS[0]]),
        ("6.12.0-211.51.1.el10_2.aarch64+64k", "open", [KMODS[3]]),
        ("6.12.0-211.51.1.el10_2.x86_64", "proprietary", [KMODS[4]]),
        ("6.12.0-211.5.1.el10_2.x86_64", "open", []),
    ],
)
def test_precompiled_modules_are_found_by_kernel_and_type(
    kernel: str, kind: str, found: list[str]
) -> None:
    assert [*of_kernel([*KMODS, *OTHERS], kernel, kind).values()] == found


def test_precompiled_modules_are_known_by_their_names() -> None:
    assert [one for one in (*KMODS, *OTHERS) if is_precompiled(one)] == [*KMODS]
    assert [version_of(one) for one in KMODS[2:4]] == ["595.58.03", "580.178.04"]
    assert {RHEL.traits.type_of(one) for one in KMODS[:4]} == {"open"}
    assert RHEL.traits.type_of(KMODS[4]) == "proprietary"


@pytest.mark.parametrize(
    ("ident", "number", "title"),
    [
        ("fedora", "44", "Fedora"),
        ("amzn", "2023", "Amazon Linux"),
        ("ol", "9.6", "RHEL family"),
        ("centos", "10", "RHEL family"),
    ],
)
def test_systems_of_the_family_are_known(ident: str, number: str, title: str) -> None:
    release = distributions.release({"ID": ident, "VERSION_ID": number})
    found = distributions.supported(ident, release)
    assert found is not None
    assert (found.family, found.title) == ("rhel", title)


@pytest.mark.parametrize(("ident", "number"), [("amzn", "2"), ("fedora", "40"), ("rhel", "7.9")])
def test_releases_that_are_not_known_are_named(ident: str, number: str) -> None:
    release = distributions.release({"ID": ident, "VERSION_ID": number})
    assert distributions.supported(ident, release) is None
    assert "Amazon Linux 2023" in distributions.in_words()


@pytest.mark.parametrize(
    ("listed", "kind"),
    [(recorded.EL8, "proprietary"), (recorded.EL9, "open")],
    ids=["el8", "el9"],
)
def test_names_are_those_of_the_recorded_lists(listed: tuple[str, ...], kind: str) -> None:
    found = RHEL.names(Offer(frozenset(listed)), Requirements(kernel=EL9))
    assert {*found.user_space, found.modules.by_type[kind]} <= set(listed)


@pytest.mark.parametrize(
    "theirs",
    ["akmod-nvidia", "akmod-nvidia-470xx", "xorg-x11-drv-nvidia-cuda", "nvidia-x11-drv"],
)
def test_driver_of_rpm_fusion_or_elrepo_is_not_replaced(theirs: str) -> None:
    family = RHEL.names(Offer(), Requirements(kernel=EL9))
    version = "3:580.95.05-1.el9"
    offered = dict.fromkeys(family.relevant, Policy(version, (version,)))
    bare = node(names=family, kernel=EL9, policies=offered, packages={"dkms": package("3.0-1")})
    assert "install" in actions(bare, components=family.user_space)
    taken = changed(bare, packages={**bare.software.packages, theirs: package(version)})
    words = rf"^{theirs} of another packager.*keep that driver.*dnf remove {theirs}$"
    with pytest.raises(NodeError, match=words):
        actions(taken, components=family.user_space)
