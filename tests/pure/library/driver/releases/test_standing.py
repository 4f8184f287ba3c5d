# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where a version stands: functions of the version, the table and the day."""

from __future__ import annotations

import datetime
import re

import pytest
from ansible_collections.gpu.node.plugins.module_utils._driver import branches as standing
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import (
    Branch,
    Bulletin,
    Table,
    Version,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.releases.table import parse
from hypothesis import given
from hypothesis import strategies as st

DAY = datetime.date(2026, 11, 22)
H100, V100 = (("0000:18:00.0", "hopper"),), (("0000:18:00.0", "volta"),)
BRANCHES = ("570", "580", "590")
DAYS = st.dates(datetime.date(2024, 1, 1), datetime.date(2029, 12, 31))


def table() -> Table:
    found = parse(True)
    assert found is not None
    return found


@st.composite
def versions(draw: st.DrawFn, branch: str = "") -> Version:
    first = branch or draw(st.sampled_from(BRANCHES))
    return Version(f"{first}.{draw(st.integers(0, 300))}.{draw(st.integers(0, 99)):02}")


@st.composite
def bulletins(draw: st.DrawFn) -> Bulletin:
    named = draw(st.sets(st.sampled_from(BRANCHES)))
    number = str(draw(st.integers(5000, 5999)))
    return Bulletin(number, draw(DAYS), "", {one: draw(versions(one)) for one in sorted(named)})


@st.composite
def tables(draw: st.DrawFn) -> Table:
    maybe = st.none() | DAYS
    rows = {
        one: Branch(
            draw(st.sampled_from(["", "lts", "production", "new feature"])),
            draw(maybe),
            draw(maybe),
            draw(st.booleans()),
        )
        for one in draw(st.sets(st.sampled_from(BRANCHES)))
    }
    found = sorted(draw(st.lists(bulletins(), max_size=5)), key=lambda one: one.date)
    return Table(draw(DAYS), rows, tuple(found))


@given(tables(), versions())
def test_floor_is_the_highest_that_a_bulletin_has_for_the_branch(
    known: Table, version: str
) -> None:
    found = standing.security_status(Version(version), known)
    branch = version[:3]
    floors = [one.floors[branch] for one in known.bulletins if branch in one.floors]
    if not floors:
        assert (found["floor"], found["bulletin"], found["below"]) == (None, None, None)
        return
    assert found["floor"] in floors
    assert all(one.numbers <= found["floor"].numbers for one in floors)
    assert found["below"] is any(version.numbers < one.numbers for one in floors)
    named = next(one for one in known.bulletins if one.floors.get(branch) == found["floor"])
    assert (named.id, str(named.date)) == (found["bulletin"], found["date"])


@given(tables(), versions("580"), versions("580"))
def test_newer_version_is_never_below_where_an_older_one_is_not(
    known: Table, one: str, other: str
) -> None:
    older, newer = sorted((one, other), key=lambda text: Version(text).numbers)
    below = [standing.security_status(Version(text), known)["below"] for text in (newer, older)]
    assert bool(below[0]) <= bool(below[1])


@given(tables(), versions())
def test_bulletins_that_list_the_branch_are_never_called_unlisted(
    known: Table, version: str
) -> None:
    branch = version[:3]
    found = standing.uncovered_bulletins(branch, known)
    assert all(branch not in one.floors for one in found)
    last = max((one.date for one in known.bulletins if branch in one.floors), default=None)
    assert all(last is None or one.date > last for one in found)


@given(tables(), versions(), DAYS, st.integers(0, 4000))
def test_what_is_past_its_support_stays_so(
    known: Table, version: str, today: datetime.date, days: int
) -> None:
    found = standing.support_status(Version(version), known, today)
    row = known.branches.get(version[:3])
    if row is None or (row.end_of_support is None and not row.ended):
        assert (found["past"], found["days"]) == (None, None)
        return
    if row.end_of_support is not None:
        assert found["days"] == (row.end_of_support - today).days
        assert found["past"] is (row.ended or found["days"] < 0)
    later = standing.support_status(Version(version), known, today + datetime.timedelta(days))
    assert found["past"] <= later["past"]


@given(tables(), DAYS, st.sampled_from([H100, V100, ()]))
def test_branch_to_move_to_is_supported_and_runs_the_gpus(
    known: Table, today: datetime.date, gpus: tuple[tuple[str, str], ...]
) -> None:
    able = {
        name: row.end_of_support
        for name, row in known.branches.items()
        if standing.support_status(Version(f"{name}.1"), known, today)["past"] is False
        if row.kind != "new feature" and (gpus != V100 or int(name) <= 580)
    }
    found = standing.longest_supported_branch(known, today, gpus)
    assert able.get(found) == max(able.values(), default=None)


@given(tables(), versions(), DAYS)
def test_there_is_a_warning_exactly_where_the_result_says_so(
    known: Table, version: str, today: datetime.date
) -> None:
    found = standing.version_warnings(Version(version), Version(version), known, today, H100)
    wrong = [
        standing.security_status(Version(version), known)["below"] is True,
        standing.support_status(Version(version), known, today)["past"] is True,
    ]
    assert len(found) == sum(wrong)
    assert standing.version_warnings(Version(version), Version(version), None, today, H100) == []
    assert standing.version_warnings(Version(""), Version(""), known, today, H100) == []


@pytest.mark.parametrize(
    ("newest", "step"),
    [
        (
            "580.178.04",
            r"Next step: nvidia_driver_version: '580' with nvidia_driver_update: true brings 580\.178\.04$",
        ),
        (
            "580.159.03",
            r"nvidia_driver_repository: nvidia, as the sources have 580\.159\.03 at most$",
        ),
        ("", r"Next step: install 580\.178\.04 or later$"),
    ],
)
def test_driver_below_the_floor_is_told_what_helps(newest: str, step: str) -> None:
    (found,) = standing.version_warnings(Version("580.95.05"), Version(newest), table(), DAY, H100)
    assert found.startswith("the driver 580.95.05 is below 580.178.04, the first of its branch")
    assert "bulletin 5861 of 2026-09-30 (https://nvidia.custhelp.com/" in found
    assert re.search(step, found)


def test_driver_at_the_floor_of_a_supported_branch_is_all_right() -> None:
    assert (
        standing.version_warnings(Version("580.178.04"), Version("580.178.04"), table(), DAY, H100)
        == []
    )


def test_branch_past_its_support_is_told_which_one_is_not() -> None:
    (found,) = standing.version_warnings(
        Version("550.163.01"), Version("550.163.01"), table(), DAY, H100
    )
    assert "branch 550, which NVIDIA does not support any more since 2025-06-30" in found
    assert "security bulletins since then, 5670, 5703, 5747, 5821, 5861" in found
    assert found.endswith(
        "Next step: set nvidia_driver_version: '580', which is supported until 2028-06-30; where the node's sources "
        "lack it, with nvidia_driver_source: repository and nvidia_driver_repository: nvidia"
    )


def test_branch_that_ended_at_an_unknown_time_is_past_it() -> None:
    (found,) = standing.version_warnings(
        Version("575.57.08"), Version("575.57.08"), table(), DAY, H100
    )
    assert "branch 575, which NVIDIA does not support any more; it has no release" in found


def test_branch_that_nobody_knows_says_nothing() -> None:
    assert (
        standing.version_warnings(Version("999.1.1"), Version("999.1.1"), table(), DAY, H100) == []
    )
    assert standing.security_status(Version("999.1.1"), table())["unlisted"] == []
    assert standing.support_status(Version("999.1.1"), table(), DAY)["past"] is None


def test_point_release_and_an_old_table_are_notes() -> None:
    later = DAY + datetime.timedelta(200)
    assert standing.version_notes("", "580.178.04", table(), DAY) == []
    newer, old = standing.version_notes("580.178.04", "580.159.03", table(), later)
    assert newer == (
        "the driver 580.178.04 is available, and 580.159.03 is installed; nvidia_driver_update: true "
        "brings it"
    )
    assert old.startswith("the table of driver branches and security bulletins is of 2026-11-22")
    assert standing.table_age(table(), later) == {"as_of": "2026-11-22", "age": 200, "old": True}
    assert (
        standing.table_age(table(), datetime.date(2020, 1, 1))["age"] == 0
    )  # a clock that is wrong
