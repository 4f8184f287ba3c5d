# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which source a driver comes from where nobody names one."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base import distributions
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import State
from ansible_collections.gpu.node.plugins.module_utils._base.packages.repository import (
    Known,
    Repository,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import (
    Version,
    support_status,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.desired import (
    ChosenSource,
    choose_source,
    named_source,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import DriverState
from ansible_collections.gpu.node.plugins.module_utils._driver.family import load_family
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import PLACE
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record
from ansible_collections.gpu.node.plugins.module_utils._driver.releases.table import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.packages.driver_nodes import (
    DESIRED,
    changed,
    converged,
    node,
    package,
    with_options,
)
from tests.support.paths import REPOSITORY as TREE

NVIDIAS = Repository("https://developer.example.com/debian13/x86_64", "key")
AUTO = with_options(DESIRED, source="auto", releases=parse(True))
DAY = datetime.date(2026, 11, 22)
B200, K80 = (("0000:18:00.0", "blackwell"),), (("0000:18:00.0", "kepler"),)
DAYS = st.dates(datetime.date(2024, 1, 1), datetime.date(2035, 12, 31))
VERSIONS = st.sampled_from(["", "550", "580", "615", "550.163.01", "550.163.01-2"])
SYSTEMS = st.sampled_from(
    [("debian", "trixie"), ("debian", "bookworm"), ("ubuntu", "noble"), ("rocky", "9")]
)
KERNEL = "nvidia-open-kernel-dkms"
# Each family knows its own.
PACKAGES = (KERNEL, "nvidia-dkms-580-server-open", "kmod-nvidia-open-dkms")
STATES = st.sampled_from([one for one in State if not package(state=one).gone])


def known() -> Repository:
    return NVIDIAS


def source(observed: DriverState, version: str = "", **wanted: Any) -> ChosenSource:
    return choose_source(observed, with_options(AUTO, version=Version(version), **wanted), known)


def bare(codename: str = "trixie", day: datetime.date = DAY, **changes: Any) -> DriverState:
    return node(**{"codename": codename, "today": day, **changes})


def recorded(*, repository: bool) -> Record:
    return Record(packages=frozenset([KERNEL]), repository=repository)


def with_files(url: str) -> Known:
    return Known({PLACE.sources: f"URIs: {url}\n"})


@st.composite
def nodes(draw: st.DrawFn, there: st.SearchStrategy[dict[str, Any]]) -> DriverState:
    distribution, codename = draw(SYSTEMS)
    known = distributions.supported(distribution, codename)
    assert known
    system = {"distribution": distribution, "codename": codename, "today": draw(DAYS)}
    return node(**system, traits=load_family(known.family).traits, **draw(there))


OURS = st.builds(
    lambda repository, loaded, libraries: {
        "record": recorded(repository=repository),
        "driver": loaded,
        "libraries": libraries,
    },
    st.booleans(),
    st.sampled_from([None, ("550.163.01", "open"), ("580.95.05", "open")]),
    st.sampled_from([(), ("550.163.01",), ("580.95.05",)]),
)
OTHERS = STATES.map(lambda state: {"packages": dict.fromkeys(PACKAGES, package(state=state))})
UNPACKAGED = st.builds(
    lambda installer: {
        "driver": ("570.86.15", "open"),
        "libraries": ("570.86.15",),
        "nvidia_installer": installer,
    },
    st.booleans(),
)


@given(nodes(OURS), VERSIONS)
def test_a_driver_of_ours_stays_with_its_source_whatever_the_day_and_the_version(
    one: DriverState, version: str
) -> None:
    expected = "repository" if one.history.record.repository else "distribution"
    assert source(one, version).name == expected


@given(nodes(OTHERS), VERSIONS)
def test_packages_of_others_stay_with_the_sources_that_the_node_knows(
    one: DriverState, version: str
) -> None:
    found = source(one, version)
    assert (found.name, found.version, found.repository) == ("distribution", version, None)


@given(nodes(UNPACKAGED))
def test_a_driver_of_no_package_is_left_alone_unless_it_is_to_be_adopted(one: DriverState) -> None:
    assert source(one).name == "preinstalled"
    assert source(one, adopt=True).name == "distribution"
    gone = changed(one, driver=None, libraries=(), nvidia_installer=True)
    assert source(gone).name == "distribution"  # which refuses it by its name


@given(nodes(st.just({})), VERSIONS, DAYS)
def test_a_second_run_chooses_what_the_first_has_chosen_on_whatever_day(
    one: DriverState, version: str, later: datetime.date
) -> None:
    first = source(one, version)
    files = with_files(NVIDIAS.url) if first.name == "repository" else Known()
    brought = f"{first.version or '550'}.1"
    second = changed(
        one,
        today=later,
        record=recorded(repository=first.name == "repository"),
        repository=files,
        libraries=(Version(brought),),
    )
    again = source(second, version)
    assert (again.name, again.version, again.repository) == first[:3]


def test_an_unsupported_branch_of_the_distribution_gives_way_to_the_branch_that_is_supported_longest() -> (
    None
):
    for codename, branch, end in (
        ("trixie", "550", "2025-06-30"),
        ("bookworm", "535", "2026-06-30"),
    ):
        found = source(bare(codename))
        assert (found.name, found.version, found.repository) == ("repository", "580", NVIDIAS)
        assert f"branch {branch}, which NVIDIA does not support any more since {end}" in found.why
    before = source(bare("bookworm", datetime.date(2026, 6, 30)))
    assert (before.name, before.version) == ("distribution", "")


@pytest.mark.parametrize(
    ("observed", "wanted"),
    [
        (bare(distribution="ubuntu", codename="noble"), {}),  # whose branches the lists say
        (bare(distribution="rocky", codename="9"), {}),
        (bare(), {"releases": None}),
        (bare(gpus=K80), {}),  # which no supported branch runs
    ],
)
def test_where_nothing_better_is_known_it_is_the_distribution(
    observed: DriverState, wanted: dict[str, Any]
) -> None:
    assert source(observed, **wanted)[:3] == ("distribution", "", None)


def test_without_a_repository_for_the_system_it_is_the_distribution() -> None:
    assert choose_source(bare(), AUTO, lambda: None).name == "distribution"


def test_a_gpu_that_the_distributions_branch_does_not_run_takes_one_that_does() -> None:
    found = source(bare(day=datetime.date(2025, 6, 1), gpus=B200))
    assert (found.name, found.version) == ("repository", "580")
    assert "does not run the GPUs" in found.why


def test_a_version_decides_by_the_branch_that_the_distribution_carries() -> None:
    for version in ("550", "550.163.01", "550.163.01-2"):
        assert source(bare(), version)[:3] == ("distribution", version, None)
    assert source(bare(), "595.71.05")[:3] == ("repository", "595.71.05", NVIDIAS)
    assert source(bare("bookworm"), "550").name == "repository"
    assert source(bare(distribution="ubuntu", codename="noble"), "595").name == "distribution"


def test_a_driver_from_a_repository_stays_in_its_branch_and_at_its_address() -> None:
    there = converged(
        record=recorded(repository=True), libraries=("595.71.05",), repository=with_files("x")
    )
    assert source(there)[:3] == ("repository", "595", None)  # a mirror's files stay as they are
    assert source(there, "580")[:3] == ("repository", "580", None)
    ours = changed(there, repository=with_files(NVIDIAS.url))
    assert source(ours).repository == NVIDIAS  # so that what has changed in them is put right
    gone = changed(there, repository=Known())
    assert source(gone).repository == NVIDIAS
    moved = changed(ours, libraries=(Version("550.163.01"),), gpus=B200)
    assert source(moved).version == "580"


def test_a_record_that_was_lost_is_made_up_for_by_the_files() -> None:
    there = bare(packages={KERNEL: package()}, repository=with_files(NVIDIAS.url))
    assert source(there).name == "repository"
    begun = bare(record=Record(repository=True), repository=with_files("x"))
    assert source(begun)[:3] == ("repository", "580", NVIDIAS)  # no driver has come of it


@pytest.mark.parametrize("word", ["repository", "runfile"])
def test_what_is_said_of_a_source_names_it(word: str) -> None:
    said: dict[str, Any] = {"source": "auto", "repository": None, "runfile": None}
    assert named_source(**said) == "auto"
    assert named_source(**{**said, word: {}}) == word
    assert named_source(**{**said, word: {}, "source": "distribution"}) == "distribution"


def test_the_table_of_systems_has_the_branches_that_distributions_carry() -> None:
    text = (TREE / "docs/reference/systems.md").read_text()
    rows = {
        (one.title, number): one.branches.get(codename, "")
        for one in distributions.SUPPORTED
        for codename, number in one.releases.items()
    }
    carried = {release: branch for release, branch in rows.items() if branch}
    assert carried[("Debian", "13")] == "550"
    known_branches = parse(True)
    assert known_branches is not None
    for (title, number), branch in carried.items():
        (row,) = [line for line in text.splitlines() if line.startswith(f"| {title} {number} |")]
        assert f"branch {branch}" in row
        is_past = support_status(Version(branch), known_branches, DAY)["past"] is True
        assert (f"branch {branch} is unsupported" in row) is is_past
