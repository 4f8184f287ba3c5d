# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A dpkg that was killed: what it began is finished, or taken back, on a played Debian."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt_sources import (
    OWN_SOURCES,
)

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debian.debian_archive import KERNELS, Machines, PlayedDebian, archive
from tests.fakes.played.debs import fragile

OLD, NEW = "535.261.03", "550.163.01"
# apt says the first of a dpkg that it has started, the second where it had to wait for a lock and was called again.
KILLED = r"dpkg (?:exited unexpectedly|was interrupted)"
TRIXIE = KERNELS["trixie"]


def state(node: PlayedDebian, name: str) -> str:
    """Return a package's state, as dpkg abbreviates it."""
    return node.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", name]).out


def actions(node: PlayedDebian, **options: str) -> list[str]:
    return [step.action for step in planned(node, check_mode=False, **options).steps]


@pytest.mark.parametrize("first", ["present", "absent"])
def test_killed_installation_is_finished_or_taken_back(debian: Machines, first: str) -> None:
    node = debian(map(fragile, archive(TRIXIE, NEW)), TRIXIE)
    before = node.installed()
    node.put("torn", "libnvidia-cfg1")
    with pytest.raises(NodeError, match=rf"(?s){KILLED}.*run again, which finishes"):
        converge(node)
    assert state(node, "libnvidia-cfg1") == "iHR"
    assert actions(node) == ["repair"]
    if first == "present":
        assert converge(node).steps == ()
        assert node.works()
    converge(node, state="absent")
    assert (node.installed(), node.exists(OWN_SOURCES)) == (before, False)


def test_journal_of_a_killed_dpkg_is_finished_where_something_is_to_change(
    done: PlayedDebian,
) -> None:
    text = (done.root / "var/lib/dpkg/status").read_text()
    (entry,) = (one for one in text.split("\n\n") if one.startswith("Package: libcuda1\n"))
    done.put("var/lib/dpkg/updates/0001", f"{entry}\n")
    assert actions(done) == []
    assert actions(done, version="535") == ["repair"]
    assert converge(done, version="535").steps == ()
    assert done.installed()["libcuda1"] == f"{OLD}-1"
    assert done.listdir("/var/lib/dpkg/updates") == []


def test_killed_change_is_finished_by_the_next_run_and_not_undone(done: PlayedDebian) -> None:
    done.put("torn", "libnvidia-ml1")
    with pytest.raises(NodeError, match=KILLED):
        converge(done, version="535")
    assert not [words for words in done.ran if "--purge" in words]
    assert converge(done, version="535").steps == ()
    assert done.installed()["nvidia-smi"] == f"{OLD}-1"


def test_repair_keeps_the_users_hold(done: PlayedDebian) -> None:
    done.torn("libcuda1", "hold reinstreq half-installed")
    done.torn("dkms", "install ok unpacked")
    record = json.loads(done.read(RECORD) or "")
    record["holds"].remove("libcuda1")
    done.put(RECORD[1:], json.dumps(record))
    assert converge(done).steps == ()
    assert (state(done, "libcuda1"), state(done, "dkms")) == ("hi ", "ii ")
    assert "libcuda1" not in json.loads(done.read(RECORD) or "")["holds"]


def test_package_that_cannot_be_finished_is_named(done: PlayedDebian) -> None:
    done.torn("libcuda1", "hold ok half-configured")
    done.put("fails", f"{NEW}-1 libcuda1")
    with pytest.raises(
        NodeError, match=r"(?s)installed libcuda1 package post-installation script.*run again"
    ):
        converge(done)
