# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Changes of the driver that fail half-way, on a small Debian."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed
from debian import VERSION, Debian, converge

OLD = "535.261.03-1"
LOG = "/var/lib/dkms/nvidia-current-open/535.261.03/build/make.log"
KERNEL = "6.12.1"


class Failing(Debian):
    """A node on which packages of the version ``bad`` cannot be configured, as dpkg leaves them.

    ``only`` names the one that cannot, where others of that version can. ``missing`` are
    versions that the sources have lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bad = self.only = ""
        self.missing: tuple[str, ...] = ()
        self.commands["apt-mark", "showauto"] = "dkms\nnvidia-smi\nvim\n"
        self.commands["apt-mark", "auto"] = ""

    def _install(self, names: tuple[str, ...], simulate: bool) -> Completed:
        words = tuple(self._from_archive(one) for one in names)
        gone = [one for one in names if one.partition("=")[2] in self.missing and "=" in one]
        if gone and not simulate:
            return Completed(100, "", f"E: Version '{self.missing[0]}' was not found")
        before = dict(self.packages)
        done = super()._install(words, simulate)
        broken = [
            name
            for name, (version, _state) in self.packages.items()
            if self.bad
            and version == self.bad
            and self.only in ("", name)
            and before.get(name, ("",))[0] != version
        ]
        if simulate or not broken:
            return done
        for name in broken:
            self.packages[name] = (self.bad, "iF " if name == broken[-1] else "iU ")
        return Completed(100, done.out, f"E: postinst of {broken[-1]} failed with status 1")

    @staticmethod
    def _from_archive(word: str) -> str:
        if not word.startswith("/"):
            return word
        name, version, _rest = word.rsplit("/", 1)[-1].split("_")
        return f"{name}={version}"

    def bring_back(self) -> list[tuple[str, ...]]:
        """Return the transactions that put packages back."""
        return [
            words for words in self.ran if words[:2] == ("apt-get", "-y") and "--purge" in words
        ]


@pytest.fixture
def done() -> Failing:
    """Return a node with the driver, on which the older version does not work."""
    host = Failing()
    assert converge(host).steps == ()
    host.bad = OLD
    host.ran.clear()
    return host


def test_version_that_cannot_be_configured_is_undone_in_one_transaction(done: Failing) -> None:
    packages, record = dict(done.packages), done.files[RECORD]
    with pytest.raises(NodeError) as caught:
        converge(done, version="535")
    text = str(caught.value)
    assert "so the previous ones were restored: firmware-nvidia-gsp 550.163.01-2" in text
    assert "postinst of nvidia-smi failed with status 1" in text
    assert caught.value.details["rolled_back"] is True
    assert (done.packages, done.files[RECORD]) == (packages, record)
    (back,) = done.bring_back()
    assert f"nvidia-smi={VERSION}" in back
    assert ("apt-mark", "auto", "nvidia-smi") in done.ran
    assert converge(done).steps == ()


def test_module_type_that_cannot_be_configured_gives_way_to_the_one_before(done: Failing) -> None:
    packages = dict(done.packages)
    done.bad, done.only = VERSION, "nvidia-kernel-dkms"
    back = r"nvidia-open-kernel-dkms 550\.163\.01-2, without nvidia-kernel-dkms"
    with pytest.raises(NodeError, match=back):
        converge(done, kernel_modules="proprietary")
    assert "nvidia-kernel-dkms" not in done.packages
    assert done.packages == packages


def test_previous_version_comes_from_the_archive_where_the_sources_lost_it(done: Failing) -> None:
    file = f"/var/cache/apt/archives/nvidia-smi_{VERSION}_amd64.deb"
    done.files[file] = ""
    done.offers = {
        name: [one for one in versions if one != VERSION or name != "nvidia-smi"]
        for name, versions in done.offers.items()
    }
    with pytest.raises(NodeError, match="were restored"):
        converge(done, version="535")
    (back,) = done.bring_back()
    assert file in back
    assert done.packages["nvidia-smi"] == (VERSION, "hi ")


def test_way_back_that_fails_says_what_is_there_and_what_to_run(done: Failing) -> None:
    done.missing = (VERSION,)
    with pytest.raises(NodeError) as caught:
        converge(done, version="535")
    text = str(caught.value)
    assert "and the previous ones could not be restored" in text
    assert "Now: firmware-nvidia-gsp is 535.261.03-1, unpacked, not configured" in text
    assert "apt-get --no-install-recommends" in text
    assert f" nvidia-smi={VERSION}" in text
    assert caught.value.details["rolled_back"] is False
    left = caught.value.details["packages_left"]
    assert left["nvidia-smi"] == "535.261.03-1, half configured"
    done.missing = ()
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

    def torn(words: tuple[str, ...]) -> Completed:
        answer = done._apt_get(words)
        if answer.rc == -9:
            done.files["/var/lib/dpkg/updates/0001"] = ""
        return answer

    done.commands["apt-get",] = torn
    with pytest.raises(NodeError, match="status -9"):
        converge(done, version="535")
    assert done.bring_back() == []
    done.remove("/var/lib/dpkg/updates/0001")
    assert converge(done, version="535").steps == ()
    assert done.packages["nvidia-smi"][0] == OLD


def test_download_that_fails_changes_nothing_and_is_not_undone(done: Failing) -> None:
    packages = dict(done.packages)
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
