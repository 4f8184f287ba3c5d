# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Debian nodes as administrators have them: options of entries, pins, packages of others, an upgrade of the release."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt_sources import (
    OWN_SOURCES,
)

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.debian.debian_archive import KERNELS, Machines, PlayedDebian, archive
from tests.fakes.played.debs import Deb
from tests.runner.tiers import long_but_first

OLD, NEW = "550.90.07", "550.163.01"
TRIXIE = KERNELS["trixie"]
SOURCES, SITE = "etc/apt/sources.list", "etc/apt/sources.list.d/debian.sources"
KEY = " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEZ\n -----END PGP PUBLIC KEY BLOCK-----"
FAILS = (("postinst", "exit 1\n"),)
TOOL = Deb("site-agent", "1", component="main", suite="noble", scripts=FAILS)


def with_fields(node: PlayedDebian, fields: str) -> PlayedDebian:
    """Have the node's entries in deb822, as Debian 13 writes them, with these fields."""
    uri = (node.root / SOURCES).read_text().split()[1]
    node.put(SOURCES, "")
    suites = "trixie trixie-updates"
    node.put(SITE, f"Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\n{fields}\n")
    return node


def break_agent(node: PlayedDebian, *offered: Deb) -> PlayedDebian:
    """Leave a package of the site half configured."""
    node.archive((*offered, TOOL))
    command = ["apt-get", "-y", "-q", "install", TOOL.name]
    assert node.run(command, check=False).rc == 100
    return node


def check_absent(node: PlayedDebian) -> None:
    assert "repair" not in [step.action for step in planned(node, state="absent").steps]
    assert converge(node, state="absent").steps == ()
    assert not [name for name in node.installed() if "nvidia" in name or "cuda" in name]
    assert [path for path in (RECORD, OWN_SOURCES) if node.exists(path)] == []


@pytest.mark.parametrize(
    "fields",
    long_but_first(
        [
            "Trusted: yes",
            "Check-Valid-Until: no\nLanguages: none",
            f"Trusted: yes\nSigned-By:\n{KEY}",
        ]
    ),
)
def test_fields_of_debians_own_file_are_copied(debian: Machines, fields: str) -> None:
    node = with_fields(debian(archive(TRIXIE, NEW), TRIXIE), fields)
    options = {"source": "distribution"}
    assert planned(node, **options).steps
    assert converge(node, **options).steps == ()
    assert (node.works(), planned(node, check_mode=False, **options).steps) == (True, ())
    node.apt("update")
    check_absent(node)
    node.apt("update")


@pytest.mark.parametrize("is_fresh", [False, pytest.param(True, marks=pytest.mark.long)])
def test_half_configured_package_of_the_site_stops_nothing(
    debian: Machines, is_fresh: bool
) -> None:
    offered = archive(TRIXIE, NEW)
    node = debian(offered, TRIXIE) if is_fresh else debian.driven(archive(TRIXIE, OLD), TRIXIE)
    break_agent(node, *offered)
    assert planned(node, update=True).steps
    plan = converge(node, update=True)
    assert plan.steps == ()
    assert [text for text in plan.warnings if f"run dpkg --configure {TOOL.name} on" in text]
    assert node.installed()["libcuda1"] == f"{NEW}-1"
    check_absent(node)


def test_pin_of_the_site_bounds_an_update_and_an_exact_version_overrules_it(
    debian: Machines,
) -> None:
    node = debian.driven(archive(TRIXIE, OLD), TRIXIE)
    node.archive(archive(TRIXIE, OLD, NEW))
    path = "/etc/apt/preferences.d/site.pref"
    node.put(path[1:], f"Package: *nvidia* libcuda1\nPin: version {OLD}*\nPin-Priority: 990\n")
    for options in ({"version": "550"}, {}):
        assert planned(node, update=True, **options).steps == ()
    assert [text for text in planned(node, version=NEW).warnings if f"overrules {path}" in text]
    assert converge(node, version=NEW).steps == ()
    assert node.installed()["libcuda1"] == f"{NEW}-1"
    check_absent(node)


def test_sources_of_the_former_release_go_or_follow(debian: Machines) -> None:
    node = debian.driven(archive(TRIXIE, NEW), TRIXIE)
    ours = node.read(OWN_SOURCES) or ""
    node.write(OWN_SOURCES, ours.replace("trixie", "bookworm"), mode=0o644)
    assert [step.action for step in planned(node).steps][:2] == ["sources", "refresh"]
    assert converge(node).steps == ()
    assert node.read(OWN_SOURCES) == ours
    node.write(OWN_SOURCES, ours.replace("trixie", "bookworm"), mode=0o644)
    text = (node.root / SOURCES).read_text()
    node.put(SOURCES, text.replace(" main\n", f" {node.all_parts}\n"))
    assert converge(node).steps == ()
    assert not node.exists(OWN_SOURCES)
    check_absent(node)


def test_hold_on_a_package_of_the_site_that_stands_in_the_way_is_named(debian: Machines) -> None:
    blocker = Deb(
        "site-cuda", "1", (("Depends", f"libcuda1 (= {OLD}-1)"),), component="main", suite="noble"
    )
    node = debian.driven((*archive(TRIXIE, OLD), blocker), TRIXIE)
    node.apt("install", "site-cuda")
    node.run(["apt-mark", "hold", "site-cuda"])
    node.archive((*archive(TRIXIE, OLD, NEW), blocker))
    for run in (planned, converge):
        with pytest.raises(NodeError, match=r"site-cuda"):
            run(node, update=True)
    with pytest.raises(NodeError, match=r"libcuda1 cannot be removed: site-cuda"):
        converge(node, state="absent")
    node.apt("--allow-change-held-packages", "purge", "site-cuda")
    check_absent(node)


def test_dkms_that_is_half_configured_of_others_is_carried_over(debian: Machines) -> None:
    failing = dataclasses.replace(TOOL, name="zfs-dkms", fields=(("Depends", "dkms"),))
    node = debian.driven(archive(TRIXIE, NEW), TRIXIE)
    node.archive((*archive(TRIXIE, NEW), failing))
    assert node.run(["apt-get", "-y", "install", failing.name], check=False).rc == 100
    assert planned(node, kernel_modules="proprietary").steps
    assert converge(node, kernel_modules="proprietary").steps == ()
    converge(node, state="absent")
    assert "dkms" in node.installed()
    assert not [name for name in node.installed() if "nvidia" in name]
