# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Components are enabled with the options that the node's own entries have, on a played Ubuntu whose apt is genuine."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt_sources import (
    OWN_SOURCES,
)

from tests.fakes.packages.driver_runs import capability, converge, planned
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines, Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85
from tests.runner.tiers import long_but_first

SOURCES = "etc/apt/sources.list"
SITE = "/etc/apt/sources.list.d/ubuntu.sources"
# Options of sources.list(5) that apt 2.6 and 3.0 know, by what one line calls them.
OPTIONS = (
    "trusted=yes",
    "allow-insecure=yes",
    "check-valid-until=no",
    "valid-until-min=1 valid-until-max=99999999",
    "check-date=no",
    "date-max-future=99999",
    "arch=amd64",
    "arch+=i386",
    "arch-=i386",
    "lang=none",
    "lang-=de",
    "target=Packages,Translations",
    "target-=Contents-deb",
    "pdiffs=no",
    "by-hash=no",
    "snapshot=20260101T000000Z",
    "contents-deb=no",
)
# Those that apt 2.6 reads on one line only.
ONE_LINE_ONLY = ("allow-weak=yes", "allow-downgrade-to-insecure=yes")
REFUSED = r"with /etc\S+gpu-node.sources, and it was left out: Conflicting .*add what is missing to the node's own"
SITE_CHANGED = "deb file:{} noble main universe\n"  # while the role is at work
FIELDS = (
    "Trusted: yes",
    "Allow-Insecure: yes",
    "Check-Valid-Until: no",
    "Check-Date: no\nX-Note: of the site",
    "Date-Max-Future: 99999",
    "Valid-Until-Max: 99999999",
    "InRelease-Path: Release",
    "Architectures: amd64\nLanguages: none",
    "Architectures-Add: i386\nLanguages-Remove: de",
    "Targets: Packages\n Translations",
    "By-Hash: no\nPDiffs: no",
    "Enabled: yes",
    "Snapshot: no",
)


def with_options(node: Ubuntu, options: str) -> Ubuntu:
    """Give each entry of one line these options."""
    text = (node.root / SOURCES).read_text()
    node.put(SOURCES, text.replace("deb file", f"deb [{options}] file"))
    return node


def with_fields(node: Ubuntu, fields: str, more: str = "") -> Ubuntu:
    """Have the entries in deb822 in place of one line, with these fields."""
    uri = (node.root / SOURCES).read_text().split()[1]
    node.put(SOURCES, "")
    text = (
        f"Types: deb deb-src\nURIs: {uri}\nSuites: noble noble-updates\nComponents: main universe\n"
    )
    text = text.replace(" deb-src", "")
    node.put(SITE[1:], f"{text}{fields}\n{more}")
    return node


def check_life(node: Ubuntu) -> None:
    """Go through check mode, a run, a second one and the removal; apt reads its sources after each."""
    before = node.installed()
    assert planned(node, version="580").steps
    assert converge(node, version="580").steps == ()
    assert node.works()
    node.apt("update")
    assert planned(node, version="580", check_mode=False).steps == ()
    converge(node, state="absent")
    node.apt("update")
    assert (node.installed(), node.exists(OWN_SOURCES)) == (before, False)


@pytest.mark.parametrize("options", long_but_first(OPTIONS))
def test_options_of_one_line_are_copied(ubuntu: Machines, options: str) -> None:
    check_life(with_options(ubuntu(archive.A, K85), options))


@pytest.mark.parametrize("fields", long_but_first(FIELDS))
def test_fields_of_deb822_are_copied(ubuntu: Machines, fields: str) -> None:
    check_life(with_fields(ubuntu(archive.A, K85), fields))


@pytest.mark.parametrize("options", long_but_first(ONE_LINE_ONLY))
def test_option_that_apt_reads_on_one_line_only_is_copied_or_refused_before_the_change(
    ubuntu: Machines, options: str
) -> None:
    node = with_options(ubuntu(archive.A, K85), options)
    before = node.files()
    if node.apt("--version").startswith("apt 2.6"):
        for run in (planned, converge):
            with pytest.raises(NodeError, match=REFUSED):
                run(node, version="580")
        assert node.files() == before
        node.enable()
    check_life(node)


def test_sources_that_apt_can_no_longer_read_are_taken_back(
    ubuntu: Machines,
) -> None:
    node = with_options(ubuntu(archive.A, K85), "trusted=yes")
    before = node.files()
    driver = capability(node, version="580")
    plan = driver.plan(driver.observe())
    node.put(SOURCES, SITE_CHANGED.format(node.mirror.folder))
    with pytest.raises(NodeError, match=r"can't read the package sources with .*Trusted"):
        driver.apply(plan.steps[0])
    assert not node.exists(OWN_SOURCES)
    assert not node.exists(RECORD)
    assert before.keys() == node.files().keys()


def test_entry_of_another_architecture_is_not_the_nodes_own(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    ports = "deb [arch=arm64] http://127.0.0.1:9/ubuntu-ports noble main\n"
    node.put(SOURCES, f"{ports}{(node.root / SOURCES).read_text()}")
    assert converge(node, version="580").steps == ()
    assert "ubuntu-ports" not in (node.read(OWN_SOURCES) or "")


def test_entries_of_one_suite_with_different_options_stay_in_force(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    text = (node.root / SOURCES).read_text()
    uri = text.split()[1]
    foreign = f"deb [arch=i386 trusted=yes] {uri} noble universe\n"
    node.put(SOURCES, foreign + text.replace("deb file", "deb [trusted=yes lang=none] file"))
    check_life(node)


def test_disabled_entry_counts_as_none(ubuntu: Machines) -> None:
    disabled = (
        "\nTypes: deb\nURIs: file:/nowhere\nSuites: noble\nComponents: main restricted multiverse\n"
    )
    node = with_fields(ubuntu(archive.A, K85), "Trusted: yes", f"{disabled}Enabled: no\n")
    check_life(node)


def test_file_of_an_earlier_release_of_the_role_that_breaks_apt_is_mended(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85, version="580")
    with_options(node, "trusted=yes")
    assert node.run(["apt-get", "update"], check=False).rc == 100
    assert [step.action for step in planned(node, version="580").steps] == ["sources", "refresh"]
    assert converge(node, version="580").steps == ()
    node.apt("update")
    assert "Trusted: yes" in (node.read(OWN_SOURCES) or "")


def test_sources_that_apt_could_not_read_before_are_the_nodes_matter(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    text = (node.root / SOURCES).read_text()
    node.put(SOURCES, f"{text}{text.replace('deb file', 'deb [trusted=yes] file')}")
    for run in (planned, converge):
        with pytest.raises(NodeError, match=r"can't read the node's package sources: Conflicting"):
            run(node, version="580")
    assert not node.exists(OWN_SOURCES)


def test_file_of_an_earlier_suite_goes_once_the_nodes_entries_have_the_components(
    ubuntu: Machines,
) -> None:
    node = ubuntu.driven(archive.A, K85, version="580")
    text = (node.read(OWN_SOURCES) or "").replace("noble", "jammy")
    node.write(OWN_SOURCES, text, mode=0o644)
    node.put(
        SOURCES, (node.root / SOURCES).read_text().replace("universe", "restricted multiverse")
    )
    assert "sources" in [step.action for step in planned(node, version="580").steps]
    assert converge(node, version="580").steps == ()
    assert not node.exists(OWN_SOURCES)
    node.apt("update")
    converge(node, state="absent")
    assert not node.held()


def test_file_of_an_earlier_suite_follows_the_nodes_entries(ubuntu: Machines) -> None:
    node = ubuntu.driven(archive.A, K85, version="580")
    text = node.read(OWN_SOURCES) or ""
    node.write(OWN_SOURCES, text.replace("noble", "jammy"), mode=0o644)
    assert converge(node, version="580").steps == ()
    assert node.read(OWN_SOURCES) == text


@pytest.mark.parametrize("is_ours", long_but_first([True, False]))
def test_removal_needs_no_sources(ubuntu: Machines, is_ours: bool) -> None:
    node = ubuntu.driven(archive.A, K85, version="580")
    text = (node.root / SOURCES).read_text()
    if is_ours:  # the entry that gpu.node wrote stops apt
        with_options(node, "trusted=yes")
    else:
        node.put(SOURCES, f"{text}deb [trusted file:/nowhere noble main\n")
    assert node.run(["apt-get", "update"], check=False).rc == 100
    assert planned(node, state="absent").steps
    assert converge(node, state="absent").steps == ()
    assert not [name for name in node.installed() if "nvidia" in name]
    assert (node.exists(OWN_SOURCES), node.exists(RECORD)) == (False, False)
    node.put(SOURCES, text)
    assert not node.held()


def test_broken_entry_of_the_node_is_named_by_its_file(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    node.put("etc/apt/sources.list.d/site.list", "deb [trusted file:/nowhere noble main\n")
    node.put("etc/apt/sources.list.d/site.list.save", "\0")
    for run in (planned, converge):
        with pytest.raises(
            NodeError, match=r"node's package sources: .*/etc/apt/sources.list.d/site.list"
        ):
            run(node, version="580")
