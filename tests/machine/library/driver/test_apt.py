# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Lists and mirrors that are not what they say, and a lock's time that is none."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.driver import debian as debian_packages
from ansible_collections.gpu.node.plugins.module_utils._core.driver.names import (
    Names,
    Offer,
    Wanted,
)
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed
from ansible_collections.gpu.node.plugins.module_utils._host.packages.apt import OWN_PREFERENCES

from tests.fakes.packages.debian import VERSION, Debian, capability, converge, converged

OLD = "535.261.03-1"
# As apt says it of a mirror behind http.
GONE = Completed(100, "", "E: Failed to fetch http://mirror/debian/x.deb  404  Not Found")


@pytest.fixture
def done() -> Debian:
    """Return a node with the driver."""
    return converged()


def test_lock_timeout_cannot_be_negative() -> None:
    with pytest.raises(InputError, match="lock_timeout: -1"):
        capability(Debian(), lock_timeout=-1)


def test_lists_older_than_the_mirror_are_fetched_once(done: Debian) -> None:
    done.answers = [GONE, None, None]
    assert converge(done, version="535").steps == ()
    assert done.packages["nvidia-smi"] == (OLD, "hi ")
    assert done.changes().count("update") == 1


def test_mirror_that_misses_a_file_for_good_is_an_error(done: Debian) -> None:
    done.answers = [GONE, None, GONE]
    with pytest.raises(NodeError, match=r"apt-get failed with status 100.* 404  Not Found"):
        converge(done, version="535")
    assert done.packages["nvidia-smi"] == (VERSION, "hi ")
    assert done.changes().count("update") == 1
    assert OWN_PREFERENCES not in done.files


def test_failure_of_another_kind_fetches_no_lists(done: Debian) -> None:
    done.answers = [Completed(100, "", "E: You don't have enough free space")]
    with pytest.raises(NodeError, match="enough free space"):
        converge(done, version="535")
    assert "update" not in done.changes()


def test_complaints_about_the_lists_are_told_when_the_driver_is_not_there() -> None:
    host = Debian()
    host.offers.clear()
    host.files["/etc/apt/sources.list"] += "deb file:/nowhere trixie main\n"
    with pytest.raises(NodeError, match=r"offer no .*nvidia-smi.* Failed to fetch file:/nowhere"):
        converge(host)


def test_offer_has_the_relations_of_the_kernel_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Debian()
    text = "Package: nvidia-kernel-dkms\nVersion: 1\nDepends: dkms\n"
    host.commands["apt-cache", "show"] = text
    offers: list[Offer] = []

    def packages(offered: Offer, wanted: Wanted) -> Names:
        offers.append(offered)
        return debian_packages.packages(offered, wanted)

    one = capability(host)
    monkeypatch.setattr(one._packages, "_known", one._packages._known._replace(packages=packages))
    one.observe()
    assert offers[0].relations == {"nvidia-kernel-dkms": {"1": ("dkms",)}}
