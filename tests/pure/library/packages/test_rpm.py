# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What rpm, dnf and zypper print, as values."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.apt import upstream
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import (
    Simulation,
    State,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages.rpm import (
    parse_dnf5_locks,
    parse_dnf_locks,
    parse_dnf_transaction,
    parse_dnf_versions,
    parse_needs,
    parse_packages,
    parse_repoquery,
    parse_unanswered,
    version_key,
    writer,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages.zypper import (
    parse_search,
    parse_summary,
)
from hypothesis import given
from hypothesis import strategies as st

TRANSACTION = """\
Dependencies resolved.
================================================================================
 Package                    Arch        Version               Repository   Size
================================================================================
Installing:
 kmod-nvidia-open-dkms      noarch      3:580.95.05-1.el9     test        6.0 k
Upgrading:
 nvidia-a-package-with-a-name-that-is-too-long-for-its-column
                            noarch      3:580.95.05-1.el9     test        6.0 k
Installing dependencies:
 dkms                       noarch      3.0-1                 test        6.0 k
Removing:
 kmod-nvidia-latest-dkms    noarch      3:580.82.07-1.el9     @test        0

Transaction Summary
================================================================================
Install  2 Packages
 not-a-package 1
"""


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("580.82.07-1", "580.95.05-1"),
        ("580.95.05-1", "3:570.1-1"),
        ("580.9-1", "580.10-1"),
        ("1.0~rc1-1", "1.0-1"),
        ("1.0-1", "1.0^git1-1"),
        ("1.0-1", "1.0.1-1"),
        ("1.a-1", "1.1-1"),
        ("1.0-1.el9", "1.0-2.el9"),
        ("580.95.05_k6.4.0_150600.21-1", "580.95.05_k6.4.0_150600.23-1"),
    ],
)
def test_versions_are_ordered_as_rpm_does(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


@given(*[st.from_regex(r"(\d:)?[0-9a-z.~]{1,8}-[0-9]{1,2}", fullmatch=True)] * 3)
def test_versions_have_one_order(one: str, other: str, third: str) -> None:
    low, middle, high = sorted(map(version_key, (one, other, third)))
    assert low <= middle <= high
    assert low <= high


def test_leading_zeros_mean_nothing() -> None:
    assert version_key("580.05-01") == version_key("580.5-1")


def test_drivers_version_is_found_in_every_spelling() -> None:
    spellings = [
        "3:580.95.05-1.el9",
        "580.95.05_k6.4.0_150600.21-1.1",
        "580.95.05-0ubuntu0.24.04.2",
    ]
    assert {upstream(one) for one in spellings} == {"580.95.05"}


def test_installed_packages_and_locks() -> None:
    text = "vim\tx86_64\t0\t9-1\nkmod\tnoarch\t3\t580.9-1\nkmod\tnoarch\t3\t580.10-1\nnonsense\n"
    found = parse_packages(text, {"kmod", "gone"})
    assert (found["vim"].version, found["vim"].held) == ("9-1", False)
    assert (found["kmod"].version, found["kmod"].held) == ("3:580.10-1", True)
    assert (found["gone"].state, found["gone"].held) == (State.NOT_INSTALLED, True)


def test_part_of_the_driver_that_a_killed_transaction_left_twice() -> None:
    text = "nvidia-smi\tx86_64\t3\t580.9-1\nnvidia-smi\tx86_64\t3\t580.10-1\n"
    found = parse_packages(text, ())["nvidia-smi"]
    assert (found.version, found.state) == ("3:580.10-1", State.TWICE)
    assert found.installed
    assert found.broken


def test_locks_of_dnf() -> None:
    text = "# Added lock on today\nnvidia-driver-cuda-3:580.95.05-1.el9.*\n!kernel-0:5.14-1.*\n\n"
    assert parse_dnf_locks(text) == {"nvidia-driver-cuda"}


# What dnf 5.4 wrote, and what /proc/locks had while another process held its lock.
DNF5_LOCKS = """\
version = "1.0"

[[packages]]
name = "dkms"
comment = "Added by 'versionlock add' command on 2026-11-22 07:06:25"

[[packages.conditions]]
key = "evr"
comparator = "="
value = "3.0-1"

[[packages]]
name = "nvidia-driver-cuda"

[[packages.conditions]]
key = "evr"
comparator = "!="
value = "3:580.82.07-1.el9"
"""
PROC_LOCKS = """\
1: FLOCK  ADVISORY  WRITE 7477 fe:00:1573925 0 EOF
2: POSIX  ADVISORY  READ 29264 fe:00:3654578 0 EOF
3: POSIX  ADVISORY  WRITE 29265 fe:00:3654579 0 EOF
3: -> POSIX  ADVISORY  WRITE 29300 fe:00:3654580 0 EOF
"""


def test_locks_of_dnf5() -> None:
    assert parse_dnf5_locks(DNF5_LOCKS) == {"dkms"}
    assert parse_dnf5_locks('version = "1.0"\n') == parse_dnf5_locks("") == frozenset()


@pytest.mark.parametrize(
    ("inode", "process"),
    [("3654579", "29265"), ("3654578", ""), ("3654580", ""), ("9", "")],
)
def test_process_that_writes_a_file_is_found(inode: str, process: str) -> None:
    assert writer(PROC_LOCKS, {inode}) == process


def test_offers_of_dnf_are_newest_first_and_may_be_asked_for_in_full() -> None:
    text = "kmod\tnoarch\t3\t580.9-1\nkmod\tnoarch\t3\t580.10-1\n"
    text += "kernel-devel\tx86_64\t0\t5.14.0-570.el9\nother\tnoarch\t0\t1-1\n"
    found = parse_repoquery(text, {"kmod", "kernel-devel-5.14.0-570.el9.x86_64"})
    assert found["kmod"].versions == ("3:580.10-1", "3:580.9-1")
    assert found["kmod"].candidate == "3:580.10-1"
    assert found["kernel-devel-5.14.0-570.el9.x86_64"].candidate == "5.14.0-570.el9"
    assert len(found) == 2


def test_transaction_of_dnf() -> None:
    assert parse_dnf_transaction(TRANSACTION) == Simulation(
        ("kmod-nvidia-open-dkms", "dkms"),
        ("nvidia-a-package-with-a-name-that-is-too-long-for-its-column",),
        ("kmod-nvidia-latest-dkms",),
    )
    assert not any(parse_dnf_transaction("Error: nothing provides it\n"))


def test_answers_of_zypper() -> None:
    row = '<solvable status="{}" name="a" kind="package" edition="{}" repository="{}"/>'
    rows = row.format("other-version", "1-1", "r") + row.format("installed", "2-1", "r")
    rows += row.format("installed", "0-1", "(System Packages)")
    text = f"<stream><search-result><solvable-list>{rows}</solvable-list></search-result></stream>"
    assert parse_search(text)["a"].versions == ("2-1", "1-1")
    parts = (
        '<to-install><solvable name="a"/></to-install><to-remove><solvable name="b"/></to-remove>'
    )
    parts += '<to-downgrade><solvable name="c"/></to-downgrade>'
    summary = f"<stream><install-summary>{parts}</install-summary></stream>"
    assert parse_summary(summary) == Simulation(("a",), ("c",), ("b",))
    with pytest.raises(NodeError, match=r"zypper's answer can't be read.*'what'"):
        parse_summary("what")


def test_needs_that_rpm_tells() -> None:
    text = "error: Failed dependencies:\n\tlibcuda.so.1()(64bit) is needed by (installed) torch-3.0-1.noarch\n"
    text += "\tdkms >= 3 is needed by (installed) zfs-dkms-2.1-1.noarch\n"
    assert parse_needs(text) == [("libcuda.so.1()(64bit)", "torch"), ("dkms", "zfs-dkms")]


@pytest.mark.parametrize(
    ("needed", "names"),
    [
        ("(a = 580.95.05 or b = 580.95.05)", ["a", "b"]),
        ("(kernel-core = 5.14.0-570.12.1.el9_6 if kernel-core)", ["kernel-core"]),
        ("((libcuda.so.1()(64bit) and b >= 1) unless c)", ["libcuda.so.1()(64bit)", "b"]),
    ],
)
def test_rich_dependency_has_several_names(needed: str, names: list[str]) -> None:
    text = f"error: Failed dependencies:\n\t{needed} is needed by (installed) user-1-1.x86_64\n"
    assert parse_needs(text) == [(one, "user") for one in names]


def test_table_of_a_transaction_has_the_versions_that_it_installs() -> None:
    assert parse_dnf_versions(TRANSACTION) == {
        "kmod-nvidia-open-dkms": "580.95.05-1.el9",
        "dkms": "3.0-1",
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Error: Failed to download metadata for repo 'a.b': Cannot download repomd.xml", "a.b"),
        ("Error: Cannot find a valid baseurl for repo: internal", "internal"),
        (
            'Failed to download metadata (baseurl: "http://a:9/b") for repository "c": No URL',
            "c",
        ),
        (
            "Failed to set up metadata download\n"
            ' No valid source (baseurl, mirrorlist or metalink) found for repository "c"',
            "c",
        ),
        ("Error: Unable to find a match: repository", ""),
        ("Failed to preset unit: repo 'a': masked", ""),
    ],
)
def test_repository_is_named_that_does_not_answer(text: str, name: str) -> None:
    found, reason = parse_unanswered(text)
    assert found == name
    assert bool(reason) == bool(name)
    assert reason in text
