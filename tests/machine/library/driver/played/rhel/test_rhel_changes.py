# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Changes of the driver on a played Rocky 9 whose dnf is genuine: at once, undone where they fail, one at a time."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._machine.packages import api

from tests.fakes.clock import Clock
from tests.fakes.packages.driver_runs import converge
from tests.fakes.played.at_work import SLOW, installing
from tests.fakes.played.rhel.played_rhel import Machines, Rhel
from tests.fakes.played.rhel.rhel_archive import KMODS, OLDER, broken
from tests.fakes.played.rhel.rhel_systems import EL9
from tests.fakes.played.rpms import FAILS
from tests.machine.library.driver.played.rhel.test_rhel_streams import enabled


def transactions(node: Rhel) -> int:
    """Return how often packages were installed or removed."""
    return len([words for words in node.ran if {"dnf", "-y", "shell"} <= {*words}])


def test_version_and_module_type_change_at_once_and_are_locked_again(rhel: Machines) -> None:
    node = rhel.driven()
    assert converge(node, version=OLDER).steps == ()
    assert node.installed()["nvidia-driver-cuda"] == OLDER
    assert (transactions(node), KMODS["open"] in node.held()) == (1, True)
    node.ran.clear()
    left = converge(node, version=OLDER, kernel_modules="proprietary", reload="when_idle")
    assert (left.steps, left.reboot_required) == ((), ())
    assert (node.loaded(), node.works()) == (f"{OLDER} proprietary", True)
    assert transactions(node) == 1
    assert (enabled(node), KMODS["open"] in node.held()) == ("580-dkms", False)
    assert KMODS["open"] not in json.loads(node.read(RECORD) or "")["holds"]


@pytest.mark.long
def test_stream_comes_back_with_the_packages_where_a_change_fails(rhel: Machines) -> None:
    node = rhel.driven()
    node.offer("more", *broken(EL9, ("pre", FAILS)))
    before, stream, record = node.installed(), enabled(node), node.read(RECORD)
    words = r"(?s)the previous ones were restored.*(?i:prein)"
    with pytest.raises(NodeError, match=words) as failed:
        converge(node, version="590")
    assert failed.value.details["rolled_back"] is True
    assert (node.installed(), enabled(node)) == (before, stream)
    assert "nvidia-driver-cuda" in node.held()
    assert node.read(RECORD) == record
    assert converge(node).steps == ()
    converge(node, state="absent")
    assert enabled(node) == ""


@pytest.mark.long
def test_lock_of_another_process_is_waited_for(
    rhel: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = rhel.driven()
    node.offer("more", [SLOW])
    node.dnf("makecache")
    with installing(node, "dnf", "-y", "install") as other:
        with pytest.raises(NodeError, match="another package manager is at work on the node"):
            converge(node, version=OLDER, lock_timeout=0)
        assert other.runs
        monkeypatch.setattr(api, "time", Clock(at=lambda _clock: other.end()))
        assert converge(node, version=OLDER).steps == ()
        assert not other.runs
    assert SLOW.name in node.installed()
