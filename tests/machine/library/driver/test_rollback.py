# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Changes of the driver that fail half-way, on a small Debian."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed

from tests.fakes.packages.debian import VERSION, Debian, converge, converged

OLD = "535.261.03-1"
LOG = "/var/lib/dkms/nvidia-current-open/535.261.03/build/make.log"
KERNEL = "6.12.1"


class Failing(Debian):
    """A node some of whose packages cannot be configured."""

    def bring_back(self) -> list[tuple[str, ...]]:
        """Return the transactions that put packages back."""
        return [
            words for words in self.ran if words[:2] == ("apt-get", "-y") and "--purge" in words
        ]


@pytest.fixture
def done() -> Failing:
    """Return a node with the driver, on which the older version does not work."""
    host: Failing = converged(Failing)
    host.bad = OLD
    return host


def test_version_that_cannot_be_configured_is_undone_in_one_transaction(done: Failing) -> None:
    done._genuine(("apt-mark", "auto", "nvidia-smi"))
    packages, record = done.packages, done.files[RECORD]
    with pytest.raises(NodeError) as caught:
        converge(done, version="535")
    text = str(caught.value)
    assert "so the previous ones were restored: firmware-nvidia-gsp 550.163.01-2" in text
    assert "package post-installation script subprocess returned error exit status 1" in text
    assert caught.value.details["rolled_back"] is True
    assert (done.packages, done.files[RECORD]) == (packages, record)
    (back,) = done.bring_back()
    assert f"nvidia-smi={VERSION}" in back
    assert done._genuine(("apt-mark", "showauto")).out.split() == ["dkms", "nvidia-smi"]
    assert converge(done).steps == ()


def test_module_type_that_cannot_be_configured_gives_way_to_the_one_before(done: Failing) -> None:
    packages = done.packages
    done.bad, done.only = VERSION, "nvidia-kernel-dkms"
    back = r"nvidia-open-kernel-dkms 550\.163\.01-2, without nvidia-kernel-dkms"
    with pytest.raises(NodeError, match=back):
        converge(done, kernel_modules="proprietary")
    assert "nvidia-kernel-dkms" not in done.packages
    assert done.packages == packages


def test_previous_version_comes_from_the_archive_where_the_sources_lost_it(done: Failing) -> None:
    file = done.keep("nvidia-smi", VERSION)
    done.offers["nvidia-smi"].remove(VERSION)
    done.update()
    with pytest.raises(NodeError, match="were restored"):
        converge(done, version="535")
    (back,) = done.bring_back()
    assert file in back
    assert done.packages["nvidia-smi"] == (VERSION, "hi ")


def test_way_back_that_fails_says_what_is_there_and_what_to_run(done: Failing) -> None:
    done.offers = {
        name: [one for one in found if one != VERSION] for name, found in done.offers.items()
    }
    done.update()
    with pytest.raises(NodeError) as caught:
        converge(done, version="535")
    text = str(caught.value)
    assert "and the previous ones could not be restored" in text
    assert "Now: firmware-nvidia-gsp is 535.261.03-1, half configured" in text
    assert "apt-get --no-install-recommends" in text
    assert f" nvidia-smi={VERSION}" in text
    assert caught.value.details["rolled_back"] is False
    left = caught.value.details["packages_left"]
    assert left["nvidia-smi"] == "535.261.03-1, half configured"
    done.bad = ""
    assert converge(done, version="535").steps == ()


def test_first_installation_has_nothing_to_go_back_to() -> None:
    host = Failing()
    host.bad = VERSION
    with pytest.raises(NodeError, match="finishes what was begun") as caught:
        converge(host)
    assert "rolled_back" not in caught.value.details
    assert host.bring_back() == []
    host.bad = ""
    assert converge(host).steps == ()


def test_killed_change_is_left_to_the_next_run(done: Failing) -> None:
    done.bad = ""
    done.torn = "libnvidia-ml1"
    with pytest.raises(NodeError, match="dpkg exited unexpectedly"):
        converge(done, version="535")
    assert done.bring_back() == []
    assert converge(done, version="535").steps == ()
    assert done.packages["nvidia-smi"][0] == OLD


def test_download_that_fails_changes_nothing_and_is_not_undone(done: Failing) -> None:
    packages = done.packages
    done.answers = [Completed(100, "", "E: Failed to fetch http://mirror/x.deb  Connection reset")]
    with pytest.raises(NodeError, match="Connection reset"):
        converge(done, version="535")
    assert done.packages == packages
    assert done.bring_back() == []


def test_build_that_fails_unnoticed_is_undone_too(done: Failing) -> None:
    done.bad = ""
    log = (
        f"DKMS make.log for nvidia-current-open-535.261.03 for kernel {KERNEL} (x86_64)\nerror: x\n"
    )

    def build(words: tuple[str, ...]) -> Completed:
        if "--simulate" not in words and f"nvidia-smi={OLD}" in words:
            done.files[LOG] = log
            done.times[LOG] = 9e9
        elif "--purge" in words:
            done.remove(LOG)
        return done._apt_get(words)

    done.commands["apt-get",] = build
    with pytest.raises(NodeError, match="DKMS could not build nvidia-current-open") as caught:
        converge(done, version="535")
    assert caught.value.details["rolled_back"] is True
    assert caught.value.details["dkms"][0]["state"] == "failed"
    assert done.packages["nvidia-smi"] == (VERSION, "hi ")
    assert json.loads(done.files[RECORD])["holds"]
