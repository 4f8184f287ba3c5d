# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that somebody else has installed on a played Ubuntu: what works stays, nothing goes unasked."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.rooted import B200
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines
from tests.fakes.played.ubuntu.ubuntu_archive import K85, OLD

BY_HAND = (
    *("nvidia-dkms-580-server", "nvidia-utils-580-server", "nvidia-compute-utils-580-server"),
    *("linux-headers-generic",),
)


def test_working_module_type_of_another_stays(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(archive.A, K85, *BY_HAND)
    before = node.installed()
    assert node.loaded() == f"{OLD} proprietary"
    left = converge(node)
    assert (left.steps, left.reboot_required) == ((), ())
    assert before.items() <= node.installed().items()
    converge(node, state="absent")
    assert node.installed() == before
    node.boot()
    assert node.works()


def test_modules_of_another_do_not_go_unasked(ubuntu: Machines) -> None:
    # Blackwell runs with the open modules only.
    node = ubuntu.by_hand(archive.A, K85, *BY_HAND, gpu=B200)
    before = node.installed()
    with pytest.raises(NodeError, match=r"nvidia-dkms-580-server.*kernel_modules: open"):
        converge(node)
    assert node.installed() == before
    assert converge(node, kernel_modules="open").steps == ()


def test_desktop_driver_is_left_alone_and_told_what_would_work(ubuntu: Machines) -> None:
    node = ubuntu.by_hand((*archive.A, *archive.driver(OLD, "")), K85, "nvidia-driver-580-open")
    before = node.installed()
    words = r"remove .*580.*keep .*source: preinstalled.*adopt: true"
    with pytest.raises(NodeError, match=words) as caught:
        converge(node)
    assert "apt-mark unhold" not in str(caught.value)
    assert node.installed() == before
    assert planned(node, check_mode=False, source="preinstalled").steps == ()


def test_proprietary_server_driver_is_taken_over(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(archive.A, K85, "nvidia-driver-580-server", "linux-headers-generic")
    before = node.installed()
    assert converge(node).steps == ()
    assert before.items() <= node.installed().items()
    assert node.works()


def test_headless_driver_with_its_tracking_package_stays_whole(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(
        archive.A,
        K85,
        "nvidia-headless-no-dkms-580-server-open",
        "linux-modules-nvidia-580-server-open-generic",
        "nvidia-utils-580-server",
    )
    assert converge(node).steps == ()
    node.archive(archive.B)
    before = node.installed()
    node.unattended()
    assert set(before) <= set(node.installed())
    assert node.works()


def test_version_of_anothers_packages_that_was_changed_stays_after_absent(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(
        archive.A, K85, "nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server"
    )
    before = set(node.installed())
    node.archive((*archive.A, *archive.G2))
    assert converge(node, version=archive.NEWER).steps == ()
    converge(node, state="absent")
    assert node.installed()["nvidia-utils-580-server"] == archive.full(archive.NEWER)
    assert before <= set(node.installed()) | {f"nvidia-firmware-580-server-{OLD}"}
    assert node.held() == set()
