# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a run says of the release that is there, and of those that are not."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.packages.debian import Debian, converged
from tests.fakes.packages.driver_runs import converge, planned, reported

PAST, FUTURE = "2020-01", "2999-01"
POINT = "550.200.01"


def table(floor: str, end: str = FUTURE) -> dict[str, Any]:
    return {
        "as_of": "2999-01-01",
        "branches": {"550": {"end_of_support": end}, "580": {"end_of_support": FUTURE}},
        "bulletins": [{"id": "1", "date": "2026-01-01", "floors": {"550": floor}}],
    }


def offering(*versions: str) -> Debian:
    """Return a node with 550.163.01, whose sources offer these versions as well."""
    node: Debian = converged()
    for name, there in node.offers.items():
        if there[0].startswith("550"):
            node.offers[name] = [*(f"{one}-1" for one in versions), *there]
    node.update()
    return node


def test_what_is_newer_is_reported_and_nothing_moves() -> None:
    node = offering(POINT, "580.178.04")
    one = converge(node, version="550")
    assert (one.steps, one.warnings) == ((), ())
    found = reported(node, version="550", releases=table("550.163.01"))
    assert found["newer_version"] == POINT
    assert found["notes"] == [
        f"the driver {POINT} is available, and 550.163.01 is installed; nvidia_driver_update: "
        "true brings it"
    ]
    assert reported(node, version="550.163.01")["newer_version"] == POINT
    assert reported(node, version="550", releases=False)["support"] == {}
    for brings in ({"version": "550", "update": True}, {"version": POINT}):
        assert reported(node, **brings)["notes"] == []  # as this run does it
    converge(node, version="550", update=True)
    assert reported(node, version="550", update=True)["notes"] == []


def test_driver_below_a_floor_is_warned_of_once_with_the_release_that_helps() -> None:
    node = offering(POINT)
    known = table(POINT)
    found = converge(node, version="550", releases=known)
    (warning,) = found.warnings
    assert f"below {POINT}" in warning
    assert warning.endswith(
        f"nvidia_driver_version: '550' with nvidia_driver_update: true brings {POINT}"
    )
    assert reported(node, version="550", releases=known)["security"]["below"] is True
    assert converge(node, version="550", update=True, releases=known).warnings == ()
    there = reported(node, version="550", releases=known)["security"]
    assert (there["below"], there["floor"], there["bulletin"]) == (False, POINT, "1")


def test_update_that_stays_below_is_warned_of_in_its_preview() -> None:
    node = offering(POINT)
    found = planned(node, version="550", update=True, releases=table("550.999"))
    (warning,) = found.warnings
    assert warning.startswith(f"the driver {POINT} is below 550.999")
    assert warning.endswith(f"as the sources have {POINT} at most")


def test_removal_says_nothing_of_releases() -> None:
    node = offering(POINT)
    found = converge(node, state="absent", releases=table(POINT, PAST))
    assert found.warnings == ()
    assert reported(node, state="absent", releases=table(POINT))["notes"] == []


def test_lists_that_cannot_be_fetched_for_an_update_are_warned_of() -> None:
    node = offering(POINT)
    words = "W: Failed to fetch http://mirror/debian/InRelease  Could not connect"
    node.answers = [Completed(0, "", f"{words}\nW: Some index files failed to download.\n")]
    found = converge(node, version="550", update=True)
    (warning,) = found.warnings
    assert "a newer driver may be missed: W: Failed to fetch" in warning
    assert converge(node, version="550").warnings == ()
