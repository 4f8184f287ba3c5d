# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Changes of the driver on a played SUSE whose zypper is genuine: undone where they fail, finished, one at a time."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._machine.packages import api

from tests.fakes.clock import Clock
from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.at_work import SLOW, installing
from tests.fakes.played.rpms import FAILS, Rpm
from tests.fakes.played.suse import suse_archive as archive
from tests.fakes.played.suse.played_suse import Machines
from tests.fakes.played.suse.suse_archive import GA, NEW, OLD, SP7, signed, user_space

KMP, LIBRARIES = "nvidia-open-driver-G06-signed-cuda-kmp-default", "nvidia-compute-G06"
OFFERED = {**archive.FOLLOWED, "more": ()}


def test_version_that_cannot_be_installed_is_undone(suse: Machines) -> None:
    node = suse.driven(archive.fresh())
    modules = dataclasses.replace(signed(SP7, NEW, GA), scripts=(("pre", FAILS),))
    node.archive({**archive.FOLLOWED, "sle": (*archive.fresh()["sle"], modules)})
    before, record, locks = node.installed(), node.read(RECORD), node.locks()
    with pytest.raises(
        NodeError, match=r"(?s)the previous ones were restored.*(?i:script)"
    ) as failed:
        converge(node, version=NEW)
    assert failed.value.details["rolled_back"] is True
    assert (node.installed(), node.read(RECORD), node.locks()) == (before, record, locks)
    assert converge(node).steps == ()


def test_lock_of_another_process_is_waited_for(
    suse: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = suse.driven(OFFERED, version=OLD)
    node.archive({"more": (SLOW,)})
    with installing(node, "zypper", "--non-interactive", "install") as other:
        with pytest.raises(NodeError, match="another package manager is at work on the node"):
            converge(node, version=NEW, lock_timeout=0)
        assert other.runs
        monkeypatch.setattr(api, "time", Clock(at=lambda _clock: other.end()))
        assert converge(node, version=NEW).steps == ()
        assert not other.runs
    assert SLOW.name in node.installed()


def test_what_others_came_to_need_is_named_and_nothing_goes(suse: Machines) -> None:
    node = suse.driven(OFFERED, version=OLD)
    node.archive({"more": (Rpm("torch", "3.0-1", (f"Requires: {LIBRARIES}",)),)})
    node.zypper("install", "torch")
    before = node.installed()
    with pytest.raises(NodeError, match=f"{LIBRARIES}, {KMP} cannot be removed: torch"):
        converge(node, state="absent")
    assert node.installed() == before


@pytest.mark.long
def test_transaction_that_was_killed_is_finished(suse: Machines) -> None:
    """It leaves both versions of a package: an upgrade the older one, and a downgrade the newer one."""
    for wanted, other in ((OLD, NEW), (NEW, OLD)):
        node = suse.driven(archive.FOLLOWED, version=wanted)
        (twice,) = (one for one in user_space(other) if one.name == LIBRARIES)
        words = ["rpm", "--install", "--nodeps", "--oldpackage", str(twice.path)]
        assert node.run(words, check=False).rc == 0
        assert converge(node, version=wanted).steps == ()
        there = node.run(["rpm", "-q", "--qf", "%{VERSION}\n", LIBRARIES]).out.split()
        assert (there, KMP in node.held()) == ([wanted], True)


def test_only_signed_modules_come_with_secure_boot(suse: Machines) -> None:
    node = suse(archive.BOTH_TYPES)
    node.put(SECURE_BOOT[1:], "\6\0\0\0\1")
    with pytest.raises(NodeError, match="Secure Boot is on"):
        planned(node, kernel_modules="proprietary")
    assert converge(node).steps == ()
    assert (KMP in node.installed(), node.loaded()) == (True, f"{OLD} open")
