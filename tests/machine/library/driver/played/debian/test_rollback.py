# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Changes of the driver that fail half-way, on a played Debian: the packages that were there come back."""

from __future__ import annotations

import dataclasses
import shutil

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import ARCHIVE

from tests.fakes.packages.driver_runs import converge
from tests.fakes.played.debian.debian_archive import KERNELS, Machines, PlayedDebian, archive
from tests.fakes.played.debs import Deb, fragile, pool

OLD, NEW = "535.261.03", "550.163.01"
TRIXIE = KERNELS["trixie"]
LOG = "var/lib/dkms/nvidia-current-open/535.261.03/build/make.log"
BUILD = f"""\
mkdir -p "$DPKG_ROOT/{LOG.rpartition("/")[0]}"
echo 'DKMS make.log for nvidia-current-open-{OLD} for kernel {TRIXIE} (x86_64)' >"$DPKG_ROOT/{LOG}"
echo 'error: x' >>"$DPKG_ROOT/{LOG}"
"""


def both() -> tuple[Deb, ...]:
    return tuple(map(fragile, archive(TRIXIE, NEW, OLD)))


def bring_back(node: PlayedDebian) -> list[tuple[str, ...]]:
    """Return the transactions that put packages back."""
    return [words for words in node.changes() if "--purge" in words]


def test_version_that_cannot_be_configured_is_undone_in_one_transaction(done: PlayedDebian) -> None:
    done.put("fails", f"{OLD}-1 libnvidia-ml1")
    done.run(["apt-mark", "auto", "nvidia-smi"])
    there, record = (done.installed(), done.held(), done.automatic()), done.read(RECORD)
    with pytest.raises(NodeError) as caught:
        converge(done, version="535")
    text = str(caught.value)
    assert f"so the previous ones were restored: firmware-nvidia-gsp {NEW}-1" in text
    assert (
        "libnvidia-ml1 package post-installation script subprocess returned error exit status 1"
        in text
    )
    assert caught.value.details["rolled_back"] is True
    assert (done.installed(), done.held(), done.automatic()) == there
    assert done.read(RECORD) == record
    (back,) = bring_back(done)
    assert f"nvidia-smi={NEW}-1" in back
    assert converge(done).steps == ()


def test_module_type_that_cannot_be_configured_gives_way_to_the_one_before(
    done: PlayedDebian,
) -> None:
    before, held = done.installed(), done.held()
    done.put("fails", f"{NEW}-1 nvidia-kernel-dkms")
    back = rf"nvidia-open-kernel-dkms {NEW}-1, without nvidia-kernel-dkms"
    with pytest.raises(NodeError, match=back):
        converge(done, kernel_modules="proprietary")
    assert (done.installed(), done.held()) == (before, held)


def test_previous_version_comes_from_the_archive_where_the_sources_lost_it(
    done: PlayedDebian,
) -> None:
    done.put("fails", f"{OLD}-1")
    ours = next(one for one in both() if (one.name, one.version) == ("nvidia-smi", f"{NEW}-1"))
    (file,) = (one for one in pool().glob("nvidia-smi_*") if one.read_bytes() == ours.data())
    kept = f"{ARCHIVE}/nvidia-smi_{NEW}-1_amd64.deb"
    shutil.copy(file, done.at(kept))
    done.archive(one for one in both() if one != ours)
    with pytest.raises(NodeError, match="were restored"):
        converge(done, version="535")
    (back,) = bring_back(done)
    assert kept in back
    assert done.installed()["nvidia-smi"] == f"{NEW}-1"


def test_way_back_that_fails_says_what_is_there_and_what_to_run(done: PlayedDebian) -> None:
    done.put("fails", f"{OLD}-1")
    done.archive(one for one in both() if one.version != f"{NEW}-1")
    with pytest.raises(NodeError) as caught:
        converge(done, version="535")
    text = str(caught.value)
    assert "and the previous ones could not be restored" in text
    assert f"Now: firmware-nvidia-gsp is {OLD}-1, half configured" in text
    assert "apt-get --no-install-recommends" in text
    assert f" nvidia-smi={NEW}-1" in text
    assert caught.value.details["rolled_back"] is False
    left = caught.value.details["packages_left"]
    assert left["libnvidia-ml1"] == f"{OLD}-1, half configured"
    done.remove("/fails")
    assert converge(done, version="535").steps == ()


def test_first_installation_has_nothing_to_go_back_to(debian: Machines) -> None:
    node = debian(both(), TRIXIE)
    node.put("fails", f"{NEW}-1")
    with pytest.raises(NodeError, match="finishes what was begun") as caught:
        converge(node)
    assert "rolled_back" not in caught.value.details
    assert bring_back(node) == []
    node.remove("/fails")
    assert converge(node).steps == ()


def test_download_that_fails_changes_nothing_and_is_not_undone(done: PlayedDebian) -> None:
    before, held = done.installed(), done.held()
    done.archive(both(), gone=["nvidia-smi"])
    with pytest.raises(NodeError, match="nvidia-smi"):
        converge(done, version="535")
    assert (done.installed(), done.held(), bring_back(done)) == (before, held, [])


def test_build_that_fails_unnoticed_is_undone_too(done: PlayedDebian) -> None:
    before, held = done.installed(), done.held()
    unnoticed = (("postinst", BUILD), ("prerm", f'rm "$DPKG_ROOT/{LOG}"\n'))
    done.archive(
        dataclasses.replace(one, scripts=unnoticed)
        if (one.name, one.version) == ("nvidia-open-kernel-dkms", f"{OLD}-1")
        else one
        for one in both()
    )
    with pytest.raises(NodeError, match="DKMS could not build nvidia-current-open") as caught:
        converge(done, version="535")
    assert caught.value.details["rolled_back"] is True
    assert caught.value.details["dkms"][0]["state"] == "failed"
    assert caught.value.cause.rstrip().endswith("error: x")
    assert (done.installed(), done.held()) == (before, held)
