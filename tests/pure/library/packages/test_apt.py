# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What apt and dpkg print, recorded on real nodes and made up."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.packages import apt
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import (
    Package,
    Policy,
    State,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import preferences
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.packages.driver_nodes import recording

NAMES = st.from_regex(r"[a-z0-9][a-z0-9+.-]{1,12}", fullmatch=True)
VERSIONS = st.from_regex(r"([0-9]:)?[0-9][0-9a-z.+~]{0,9}-[0-9][0-9a-z.+~]{0,4}", fullmatch=True)
LINES = sorted(
    {
        line
        for name in ("policy-trixie-installed", "dpkg-trixie-killed", "simulate-install-trixie")
        for line in recording(name).split("\n")
    }
)
TEXTS = st.text() | st.lists(st.sampled_from(LINES) | st.text(max_size=20)).map("\n".join)


def test_policy_of_packages_that_are_not_installed() -> None:
    found = apt.parse_policy(recording("policy-trixie"))
    assert found["nvidia-smi"] == Policy("550.163.01-2", ("550.163.01-2",), "non-free")
    assert found["linux-headers-amd64"] == Policy(
        "6.12.117-1", ("6.12.117-1", "6.12.107-1"), "main"
    )
    assert found["bash"].versions == ("5.2.37-2+b10",)
    assert len(found) == 11


def test_policy_of_installed_packages() -> None:
    found = apt.parse_policy(recording("policy-trixie-installed"))
    assert found["nvidia-smi"] == Policy("550.163.01-2", ("550.163.01-2",), "non-free")


def test_policy_lists_the_versions_of_every_suite() -> None:
    found = apt.parse_policy(recording("policy-bookworm"))
    assert found["libcuda1"].versions == ("535.309.01-0+deb12u1", "535.261.03-1")
    assert found["nvidia-open-kernel-dkms"].versions == ("535.261.03-1",)


def test_versions_that_a_pin_forbids_are_not_offered() -> None:
    text = "patch:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n     2.8-2 -1\n"
    assert apt.parse_policy(text) == {"patch": Policy(None, ())}


@given(
    st.dictionaries(
        NAMES, st.tuples(st.lists(VERSIONS, max_size=3, unique=True), st.integers(0, 3))
    )
)
def test_policy_survives_the_round_trip(policies: dict[str, tuple[list[str], int]]) -> None:
    text, expected = "", {}
    for name, (versions, installed) in policies.items():
        candidate = versions[0] if versions else None
        expected[name] = Policy(candidate, tuple(versions), "main" if candidate else "")
        text += f"{name}:\n  Installed: (none)\n  Candidate: {candidate or '(none)'}\n"
        text += "  Version table:\n"
        for number, version in enumerate(versions):
            text += f" {'***' if number == installed else '   '} {version} 500\n"
            text += "        500 http://mirror/debian trixie/main amd64 Packages\n"
    assert apt.parse_policy(text) == expected


def test_packages_of_a_node_with_the_driver() -> None:
    found = apt.parse_packages(recording("dpkg-trixie-installed"))
    assert found["libcuda1"] == Package(
        "550.163.01-2", "nvidia-graphics-drivers", State.INSTALLED, held=True
    )
    assert {name for name, one in found.items() if one.held} == {
        *("firmware-nvidia-gsp", "libcuda1", "libnvidia-cfg1", "libnvidia-ml1", "nvidia-cuda-mps"),
        *("nvidia-open-kernel-dkms", "nvidia-persistenced", "nvidia-smi"),
    }
    assert all(one.installed and not one.broken for one in found.values())


def test_packages_of_a_node_whose_dpkg_was_killed() -> None:
    found = apt.parse_packages(recording("dpkg-trixie-killed"))
    whole = {"bash", "dpkg", "libc6", "nvidia-installer-cleanup", "nvidia-legacy-check"}
    assert {name for name, one in found.items() if not one.broken} == whole
    assert {name for name, one in found.items() if one.installed} == whole


def test_packages_of_foreign_architectures_are_left_out() -> None:
    text = (
        "dpkg\tamd64\tdpkg\t1.22\tii \n"
        "libcuda1:i386\ti386\tnvidia-graphics-drivers\t535-1\tii \n"
        "libcuda1:amd64\tamd64\tnvidia-graphics-drivers\t550-1\tii \n"
        "dkms\tall\tdkms\t3.2\tii \n"
    )
    found = apt.parse_packages(text)
    assert found["libcuda1"].version == "550-1"
    assert set(found) == {"dpkg", "libcuda1", "dkms"}


@pytest.mark.parametrize("architecture", ["", "all", "amd64"])
def test_package_that_is_not_there_counts_when_it_is_on_hold(architecture: str) -> None:
    text = (
        "dpkg\tamd64\tdpkg\t1.22\tii \n"
        f"dkms\t{architecture}\tdkms\t\thn \n"
        f"awk\t{architecture}\tawk\t\tun \n"
    )
    found = apt.parse_packages(text)
    assert set(found) == {"dpkg", "dkms"}
    assert (found["dkms"].held, found["dkms"].installed, found["dkms"].broken) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("letters", "state", "installed", "broken"),
    [
        ("ii ", State.INSTALLED, True, False),
        ("iit", State.INSTALLED, True, False),
        ("it ", State.TRIGGERS_PENDING, True, True),
        ("iW ", State.TRIGGERS_AWAITED, True, True),
        ("iU ", State.UNPACKED, False, True),
        ("iF ", State.HALF_CONFIGURED, False, True),
        ("iHR", State.HALF_INSTALLED, False, True),
        ("iiR", State.INSTALLED, True, True),
        ("rc ", State.CONFIG_FILES, False, False),
        ("hn ", State.NOT_INSTALLED, False, False),
    ],
)
def test_states_of_a_package(letters: str, state: State, *, installed: bool, broken: bool) -> None:
    package = apt.parse_packages(f"x\tall\tx\t1-1\t{letters}\n")["x"]
    assert (package.state, package.installed, package.broken) == (state, installed, broken)
    assert (package.held, package.torn) == (letters[0] == "h", letters[2] == "R")


@pytest.mark.parametrize("letters", ["", "i", "ix ", "i  "])
def test_line_without_a_state_is_no_package(letters: str) -> None:
    assert apt.parse_packages(f"x\tall\tx\t1-1\t{letters}\n") == {}


def test_a_simulated_installation_tells_what_is_new_changed_and_removed() -> None:
    found = apt.parse_simulation(recording("simulate-install-trixie"))
    assert len(found.new) == 16
    assert {"nvidia-smi", "pci.ids"} <= set(found.new)
    assert found.changed == ("liblzma5",)
    assert found.removed == ()


def test_simulated_removal_names_foreign_architectures() -> None:
    text = "Remv libcuda1 [550-1]\nPurg nvidia-smi [550-1]\nRemv libcuda1:i386 [550-1]\n"
    assert apt.parse_simulation(text).removed == ("libcuda1", "nvidia-smi", "libcuda1:i386")


def test_simulation_that_failed_removes_nothing() -> None:
    assert apt.parse_simulation(recording("simulate-purge-trixie")) == ((), (), ())


def test_dependencies_are_followed_to_the_end() -> None:
    found = apt.parse_dependencies(recording("depends-trixie"))
    assert {"dkms", "kmod", "libc6", "make-guile", "zlib1g"} <= found
    assert not [name for name in found if "Depends" in name or ":" in name]


def test_dependency_on_a_name_that_others_provide() -> None:
    text = "x\n  Depends: <perl:any>\n    perl\n |PreDepends: <awk>\n    mawk\n"
    assert apt.parse_dependencies(text) == {"x", "perl", "awk", "mawk"}


@given(TEXTS)
def test_no_text_breaks_the_parsers(text: str) -> None:
    for policy in apt.parse_policy(text).values():
        assert not any(set(version) & set(" \n") for version in policy.versions)
    for package in apt.parse_packages(text).values():
        assert package.installed in (True, False)
    simulation = apt.parse_simulation(text)
    assert len(simulation.new) <= text.count("Inst")
    assert len(simulation.removed) <= text.count("Remv") + text.count("Purg")
    assert not [name for name in apt.parse_dependencies(text) if set(name) & set(" :<>\n")]


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("550.163.01-2", "550.163.01"),
        ("535.309.01-0+deb12u1", "535.309.01"),
        ("1:3.13.0-2", "3.13.0"),
        ("20240109+1", "20240109+1"),
        ("1.0-rc1-2", "1.0-rc1"),
    ],
)
def test_upstream_part_of_a_version(version: str, found: str) -> None:
    assert apt.upstream(version) == found


def test_pins_stand_beside_what_was_there() -> None:
    text = preferences({"src:b": "2-1", "src:a": "1-1"}, "Package: x\nPin: version 1\n\n")
    assert text.split("\n\n") == [
        "Package: x\nPin: version 1",
        "Package: src:a\nPin: version 1-1\nPin-Priority: 1001",
        "Package: src:b\nPin: version 2-1\nPin-Priority: 1001\n",
    ]
    assert preferences({"src:a": "1-1"}, "\n").startswith("Package: src:a\n")


@pytest.mark.parametrize(
    ("text", "busy"),
    [
        ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)", True),
        ("dpkg: error: dpkg frontend lock was locked by another process with pid 7", True),
        # debconf 1.5.82, while another process had it open.
        (
            'Preconfiguring packages ...\ndebconf: DbDriver "config": /var/cache/debconf/config.dat is locked by '
            "another process: Resource temporarily unavailable",
            True,
        ),
        (
            "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend),"
            " is another process using it?",
            True,
        ),
        (
            "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?",
            False,
        ),
        ("E: Unable to lock directory /var/lib/apt/lists/", True),
        ("E: Failed to fetch http://mirror/debian/x.deb  404  Not Found", False),
        ("E: Sub-process /usr/bin/dpkg returned an error code (1)", False),
        # debconf's lock delays the configuration; the transaction ended because dpkg was killed.
        (
            'debconf: DbDriver "config": /var/cache/debconf/config.dat is locked by another process: Resource '
            "temporarily unavailable\nE: Sub-process /usr/bin/dpkg exited unexpectedly",
            False,
        ),
        (
            'debconf: DbDriver "config": /var/cache/debconf/config.dat is locked by another process: Resource '
            "temporarily unavailable\nE: Sub-process /usr/bin/dpkg returned an error code (1)",
            True,
        ),
    ],
)
def test_locks_are_told_from_other_failures(text: str, busy: bool) -> None:
    assert apt.is_busy(text) is busy


def test_relations_are_those_of_each_version() -> None:
    text = """\
Package: nvidia-kernel-dkms
Version: 550.163.01-2
Depends: dkms (>= 2), nvidia-kernel-support (= 550.163.01-2) | other
Pre-Depends: dpkg
Description-en: one
 Depends: nothing

Package: nvidia-kernel-dkms
Version: 535.261.03-1
"""
    assert apt.parse_relations(text) == {
        "nvidia-kernel-dkms": {
            "550.163.01-2": (
                "dpkg",
                "dkms (>= 2)",
                "nvidia-kernel-support (= 550.163.01-2) | other",
            ),
            "535.261.03-1": (),
        }
    }
