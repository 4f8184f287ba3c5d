# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which run has a node: what the marker of a change says, and what another run may make of it."""

from __future__ import annotations

import calendar
import hashlib
import json
import time
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._node.in_service import (
    MARKER,
    OLDER,
    TIME,
    Asked,
    Change,
    parse,
    refusal,
)
from ansible_collections.gpu.node.plugins.module_utils._node.machine.in_service import standing
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.fakes import FakeHost
from tests.support.paths import REPOSITORY

ME = Change("mig", "ctl-1", "ops", "m", 70, "boot 7", "2026-11-23T16:00:00Z")
OTHER = Change("upgrade_driver", "ctl-1", "root", "m", 71, "boot 8", "2026-11-23T15:00:00Z")
AWAY = OTHER._replace(host="ctl-2")
HOUR = 3600
RUNS = st.builds(
    Change,
    *(st.sampled_from(one) for one in (["", "mig"], ["ctl-1", "ctl-2"], ["root"], ["m", "n"])),
    *(st.sampled_from(one) for one in ([70, 71], ["boot 7", "boot 8"])),
    st.integers(0, 4 * 10**9).map(lambda at: time.strftime(TIME, time.gmtime(at))),
    st.sampled_from(["", "apt failed"]),
)
NOTHING = Asked()
ASKED = st.builds(Asked, st.booleans(), st.integers(0, 10**9))


def why(found: Change, asked: Asked = NOTHING, *, lives: bool = True, finishes: bool = True) -> str:
    return refusal(found, ME, asked, lambda _pid, _process: lives, finishes=finishes)


def test_a_run_goes_on_with_what_it_has_begun_itself() -> None:
    assert why(ME._replace(change="reboot", begun=OTHER.begun)) == ""


def test_a_run_of_this_controller_is_waited_for_as_long_as_its_process_is_there() -> None:
    words = "the node is in the middle of upgrade_driver by root on ctl-1, begun 2026-11-23T15"
    assert why(OTHER, Asked(take_over=True)).startswith(words)
    assert why(OTHER).endswith("goes on as process 71. Next step: wait until it has ended")
    assert why(OTHER, lives=False) == ""


@pytest.mark.parametrize("away", [AWAY, OTHER._replace(machine="a container of its own")])
def test_a_run_of_another_controller_is_taken_over_when_it_is_old_or_the_user_says_so(
    away: Change,
) -> None:
    for lives in (True, False):
        assert "see there that it has ended" in why(away, Asked(after=HOUR + 1), lives=lives)
        assert why(away, Asked(after=HOUR), lives=lives) == ""
        assert why(away, Asked(True, HOUR + 1), lives=lives) == ""


def test_a_change_that_has_failed_is_over_wherever_it_was_begun() -> None:
    assert why(AWAY._replace(failed="apt failed"), Asked(after=HOUR * 9)) == ""


def test_what_does_not_finish_a_change_leaves_the_node_alone() -> None:
    for found in (OTHER, OTHER._replace(failed="apt failed"), Change("upgrade_driver")):
        said = why(found, lives=False, finishes=False)
        assert "Next step: run gpu.node.upgrade_driver to its end" in said
        assert why(found, Asked(take_over=True), lives=False, finishes=False) == ""
    assert "has failed: apt failed. Next" in why(
        OTHER._replace(failed="apt failed."), finishes=False
    )
    assert "in the middle of a change. Next step: run gpu.node.up" in why(Change(), finishes=False)


@given(RUNS, RUNS, ASKED, st.booleans(), st.booleans())
def test_two_runs_never_have_one_node(
    found: Change, me: Change, asked: Asked, lives: bool, finishes: bool
) -> None:
    def refused(asked: Asked, lives: bool) -> bool:
        return bool(refusal(found, me, asked, lambda _pid, _process: lives, finishes=finishes))

    same = found.run == me.run
    here = (found.host, found.machine) == (me.host, me.machine)
    if here and lives and not same and not found.failed:
        assert refused(asked, lives)
    if finishes and (same or found.failed or (here and not lives)):
        assert not refused(asked, lives)
    if refused(asked, lives) and not refused(asked, False):
        assert here
    if not refused(asked, lives):
        assert not refused(asked._replace(take_over=True, after=0), lives)
    at = calendar.timegm(time.strptime(me.begun, TIME)) - calendar.timegm(
        time.strptime(found.begun, TIME)
    )
    if finishes and not here and not found.failed:
        assert refused(asked, lives) == (at < asked.after and not asked.take_over)


@given(RUNS)
def test_a_marker_is_read_as_it_was_written(run: Change) -> None:
    assert parse(json.dumps(run._asdict())) == run


@given(
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda one: st.lists(one) | st.dictionaries(st.sampled_from(Change._fields), one),
    ).map(json.dumps)
)
def test_a_marker_that_can_not_be_read_is_an_earlier_versions(text: str) -> None:
    found = parse(text)
    assert found == Change(found.change) or found.host
    assert found.cause.isprintable()


def test_a_marker_of_an_earlier_version_names_its_playbook() -> None:
    assert parse("A change has begun; run the playbook gpu.node.reboot to its end.\n") == Change(
        "reboot"
    )


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({next(iter(OLDER)): ""}, (Change("upgrade_driver"), "")),
        ({MARKER: ""}, (Change(), hashlib.sha256(b"").hexdigest())),
        (
            {MARKER: json.dumps(OTHER._asdict()), **dict.fromkeys(OLDER, "")},
            (OTHER, hashlib.sha256(json.dumps(OTHER._asdict()).encode()).hexdigest()),
        ),
    ],
)
def test_the_change_that_stands_on_a_node_is_told_of(files: dict[str, str], expected: Any) -> None:
    assert standing(FakeHost(files=files)) == expected  # type: ignore[arg-type]


def test_the_playbooks_write_the_marker_that_is_looked_for() -> None:
    tasks = yaml.safe_load((REPOSITORY / "playbooks/tasks/in_service.yml").read_text())
    (variables,) = (one["vars"] for one in tasks if "__in_service_marker" in one.get("vars", {}))
    assert variables["__in_service_marker"] == MARKER
    assert variables["__in_service_paths"]["older"] == list(OLDER)
