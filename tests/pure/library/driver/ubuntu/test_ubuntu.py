# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ubuntu's branches of the driver: which one the names are of, and what of the recorded lists they are."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.families.ubuntu import (
    UBUNTU,
    branches,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.components import (
    check as check_components,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Names,
    Offer,
    Requirements,
)

from tests.fakes.packages.driver_nodes import actions, node
from tests.fakes.played import recorded_packages as recorded

SERVERS = frozenset(
    f"nvidia-dkms-{branch}-server{end}" for branch in (535, 570, 580, 595) for end in ("", "-open")
) | {"nvidia-dkms-590", "nvidia-dkms-590-open"}  # those for desktops are not taken
VOLTA = (("0000:18:00.0", "volta"),)


def names(
    version: str = "", *there: str, kind: str = "open", gpus: tuple[tuple[str, str], ...] = ()
) -> Names:
    offered = Offer(SERVERS, installed=dict.fromkeys(there, "1"))
    return UBUNTU.names(
        offered, Requirements(Version(version), kind, "6.8.0-85-generic", gpus=gpus)
    )


@pytest.mark.parametrize(
    ("wanted", "branch"),
    [
        ("", "595"),
        ("535", "535"),
        ("535.274.02", "535"),
        ("535.274.02-0ubuntu0.24.04.1", "535"),
        ("999", "999"),
    ],
)
def test_branch_is_read_from_the_version(wanted: str, branch: str) -> None:
    found = names(wanted)
    assert (found.branch, found.branches) == (branch, ("595", "580", "570", "535"))
    assert found.modules.by_type["open"] == f"nvidia-dkms-{branch}-server-open"
    assert found.source(f"nvidia-utils-{branch}-server") == (
        f"nvidia-graphics-drivers-{branch}-server"
    )


def test_branch_that_is_installed_stays_where_it_runs_the_gpus() -> None:
    assert names("", "libnvidia-compute-570-server").branch == "570"
    assert names("", "libnvidia-compute-595-server", kind="proprietary", gpus=VOLTA).branch == "580"
    assert names("", kind="proprietary", gpus=VOLTA).branch == "580"


@pytest.mark.parametrize("wanted", ["590", "999"])
def test_unknown_branch_lists_those_that_are_offered(wanted: str) -> None:
    with pytest.raises(InputError, match=rf"'{wanted}' .*open kernel modules: 595, 580, 570, 535"):
        actions(
            node(names=names(wanted), distribution="ubuntu", codename="noble"),
            version=wanted,
            check_mode=True,
        )


@pytest.mark.parametrize(
    ("components", "words"),
    [
        (["nvidia-dkms-595-server"], "kernel_modules chooses them"),
        (["nvidia-utils-595-server"], "persistence to be false"),
    ],
)
def test_components_that_cannot_be_meant(components: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_components(node(names=names()), components, persistence=True)


# --- lists that were recorded on machines ---


@pytest.mark.parametrize(
    ("module_type", "found"),
    [
        ("open", "575 570 565 550 535"),
        ("proprietary", "575 570 565 550 535 525 515 470 460"),
    ],
)
def test_branches_for_servers_are_told_from_those_for_desktops(
    module_type: str, found: str
) -> None:
    assert " ".join(branches(recorded.NOBLE_DKMS, module_type)) == found


@pytest.mark.parametrize(
    ("listed", "kernel", "kind"),
    [
        (recorded.NOBLE, recorded.NOBLE_KERNEL, "open"),
        (recorded.JAMMY, "5.15.0-160-generic", "proprietary"),
    ],
    ids=["noble", "jammy"],
)
def test_names_are_those_of_the_recorded_lists(
    listed: tuple[str, ...], kernel: str, kind: str
) -> None:
    found = UBUNTU.names(Offer(frozenset(listed)), Requirements(Version("570"), kind, kernel))
    wanted = {*found.user_space, found.modules.anchor, *found.companion}
    assert wanted <= set(listed)
    assert {found.modules.prebuilt[kind], found.modules.by_type[kind]} & set(listed)
