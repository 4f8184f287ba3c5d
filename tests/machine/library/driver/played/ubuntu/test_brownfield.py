# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A driver that somebody else has installed on a played Ubuntu: what works stays, nothing goes unasked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD

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
    kept = planned(node, check_mode=False, source="preinstalled")
    assert [step.action for step in kept.steps] == ["gpus"]


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


@pytest.mark.parametrize(
    ("names", "first"),
    [(BY_HAND[:1], []), (BY_HAND, [{}]), (BY_HAND, [{"hold": False}])],
    ids=["modules alone", "kept", "not held"],
)
def test_exchanged_kernel_modules_of_another_are_given_back(
    ubuntu: Machines, names: tuple[str, ...], first: list[dict[str, Any]]
) -> None:
    node = ubuntu.by_hand(archive.A, K85, *names, "linux-headers-generic")
    before, marks, worked = node.installed(), node.automatic(), node.works()
    for options in (*first, {"kernel_modules": "open"}):
        assert converge(node, **options).steps == ()
    assert "nvidia-dkms-580-server" not in node.installed()
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert converge(node, kernel_modules="open").steps == ()
    remove = planned(node, state="absent").steps[-1]
    assert f"put back nvidia-dkms-580-server ({archive.full(OLD)})" in remove.summary
    assert remove.params["packages"]
    assert not [one for one in remove.params["packages"] if one in before]
    assert converge(node, state="absent").reboot_required == ()
    assert (node.installed(), node.held(), node.automatic()) == (before, set(), marks)
    node.boot()
    assert (node.loaded(), node.works()) == (f"{OLD} proprietary", worked)
    assert converge(node, state="absent").steps == ()


def test_exchanged_kernel_modules_that_cannot_be_had_any_more_leave_a_driver_that_works(
    ubuntu: Machines,
) -> None:
    node = ubuntu.by_hand(archive.A, K85, *BY_HAND)
    assert converge(node, kernel_modules="open").steps == ()
    there = node.installed()
    node.archive(one for one in archive.A if not one.name.startswith("nvidia-dkms"))
    words = planned(node, state="absent").steps[-1].summary
    assert "leave the driver as it is, since not all of nvidia-dkms-580-server" in words
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (there, set())
    node.boot()
    assert node.works()


def test_version_of_anothers_packages_that_was_changed_is_given_back(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(
        archive.A, K85, "nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server"
    )
    before, marks = node.installed(), node.automatic()
    node.archive((*archive.A, *archive.G2))
    assert converge(node, version=archive.NEWER).steps == ()
    converge(node, state="absent")
    assert (node.installed(), node.held(), node.automatic()) == (before, set(), marks)


def test_exchange_of_anothers_kernel_modules_that_fails_leaves_no_record(ubuntu: Machines) -> None:
    node = ubuntu.by_hand(archive.A, K85, *BY_HAND)
    before, marks = node.installed(), node.automatic()
    fails = (("postinst", "exit 7\n"),)
    name = f"linux-modules-nvidia-580-server-open-{K85}"
    node.archive(
        dataclasses.replace(one, scripts=fails) if one.name == name else one for one in archive.A
    )
    with pytest.raises(NodeError, match="the previous ones were restored"):
        converge(node, kernel_modules="open")
    assert (node.installed(), node.automatic()) == (before, marks)
    assert not node.exists(RECORD)
