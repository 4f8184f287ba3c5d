# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""zypper's locks, its configuration and its words, as genuine ones were seen, and what rpm is asked before it."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.zypper import (
    configuration,
    disabled,
    in_the_way,
    locked,
    messages,
    without,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.rpm import Dnf, Rpm
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.zypper import Zypper

from tests.fakes.library.fakes import FakeHost

# Written by zypper addlock: NAME, PATTERN, --repo cuda NAME, 'NAME > VERSION'; then --type pattern NAME.
LOCK = "\n{}type: package\n{}match_type: glob\ncase_sensitive: on\nsolvable_name: {}\n\n"
OURS = LOCK.format("", "", "nvidia-compute-G06")
THEIRS = (
    LOCK.format("", "", "nvidia-gl-*")
    + LOCK.format("repo: cuda\n", "", "nvidia-common-G06")
    + LOCK.format("", "version: > 580.90\n", "nvidia-persistenced")
    + LOCK.format("", "", "x11").replace("type: package", "type: pattern", 1)
)
REFUSAL = """\
<?xml version='1.0'?>
<stream>
<message type="info">Loading repository data...</message>
<message type="info">2 Problems:</message>
<message type="info">Problem: nothing provides b &gt;= 1 needed by a-1-1.x86_64</message>
<message type="info">Problem: nothing provides c needed by a-1-1.x86_64</message>
<prompt id="1">
<description>Problem: nothing provides b &gt;= 1 needed by a-1-1.x86_64
 Solution 1: do not install a-1-1.x86_64
</description>
</prompt>
</stream>
"""


def test_only_what_is_locked_in_every_version_counts_as_locked() -> None:
    installed = ("nvidia-gl-G06", "nvidia-common-G06", "nvidia-persistenced", "vim")
    assert locked(OURS + THEIRS, installed) == {"nvidia-compute-G06", "nvidia-gl-G06"}
    assert locked("", installed) == frozenset()


def test_locks_of_others_stay_when_ours_are_left_out() -> None:
    assert without(OURS + THEIRS, {"nvidia-compute-G06", "nvidia-gl-*", "x11"}) == (THEIRS)
    commented = OURS.replace("solvable_name", "comment: held\nsolvable_name")
    assert without(commented, {"nvidia-compute-G06"}) == ""


@pytest.mark.parametrize(
    ("named", "arguments"),
    [
        ("nvidia-gl-G06-580.95.05-1.x86_64[cuda]", ["nvidia-gl-*"]),
        ("nvidia-common-G06-580.95.05-1.x86_64", ["--repo", "cuda", "nvidia-common-G06"]),
        ("nvidia-persistenced-580.95.05-1.x86_64", ["nvidia-persistenced > 580.90"]),
    ],
)
def test_lock_that_zypper_names_is_found(named: str, arguments: list[str]) -> None:
    words = f" Solution 1: remove lock to allow installation of {named}"
    (found,) = in_the_way(OURS + THEIRS, words, {"nvidia-compute-G06"})
    assert found.arguments == arguments
    ours = " Solution 1: remove lock to allow removal of nvidia-compute-G06-1-1.x86_64"
    assert in_the_way(OURS + THEIRS, ours, {"nvidia-compute-G06"}) == []


def test_configuration_is_merged_as_libzypp_does() -> None:
    files = {
        "/usr/etc/zypp/zypp.conf": "[main]\n## why\na = vendor\n",
        "/usr/etc/zypp/zypp.conf.d/10-a.conf": "[main]\nb = masked\n",
        "/etc/zypp/zypp.conf.d/10-a.conf": "[main]\nb = own\nmultiversion = provides:x(kernel)\n",
        "/etc/zypp/zypp.conf.d/20-b.conf": "[main]\na = later\nlocksfile.path = /else\n[env]\nX = %1\n",
    }
    assert configuration(files, "/run/locks") == (
        "[main]\na = later\nb = own\nmultiversion = provides:x(kernel)\nlocksfile.path = /run/locks\n"
        "[env]\nX = %1\n"
    )
    own = {**files, "/etc/zypp/zypp.conf": "[main]\nc = whole\n"}
    assert "c = whole" in configuration(own, "/run/locks")
    assert configuration({}, "/run/locks") == "[main]\nlocksfile.path = /run/locks\n"


def test_configuration_that_cannot_be_read_is_named() -> None:
    with pytest.raises(NodeError, match=r"/etc/zypp/zypp\.conf cannot be read"):
        configuration({"/etc/zypp/zypp.conf": "a = 1\n"}, "/run/locks")


def test_repositories_that_are_off() -> None:
    text = "[on]\nenabled=1\n[off]\nname=a\nenabled = 0\n[default]\nbaseurl=file:///x\n"
    assert disabled([text]) == ["off"]


def test_words_of_a_refusal_are_kept_once_and_without_progress() -> None:
    assert messages(REFUSAL).split("\n") == [
        "Problem: nothing provides b >= 1 needed by a-1-1.x86_64",
        "Problem: nothing provides c needed by a-1-1.x86_64",
        " Solution 1: do not install a-1-1.x86_64",
    ]
    error = '<stream><message type="error">No provider of a.</message></stream>'
    assert messages(error) == "No provider of a."
    info = '<stream><message type="info">Nothing to do.</message></stream>'
    assert messages(info) == "Nothing to do."
    assert messages("plain") == "plain"


@pytest.mark.parametrize("manager", [Dnf, Zypper])
def test_nothing_goes_where_another_package_has_come_to_need_it(manager: type[Rpm]) -> None:
    """Both tools would take that package along."""
    needed = Completed(1, "", "libcuda.so.1 is needed by (installed) torch-3.0-1.x86_64")
    host = FakeHost(commands={("rpm", "--erase"): needed, ("dnf",): "", ("zypper",): ""})
    with pytest.raises(NodeError, match=r"needed by \(installed\) torch"):
        manager(host, 0, "the driver").purge(["nvidia-compute-G06"])
    (asked,) = host.ran
    assert asked[-2:] == ("--test", "nvidia-compute-G06")
    host.commands["rpm", "--erase"] = ""
    manager(host, 0, "the driver").purge(["nvidia-compute-G06"])
    assert "remove" in host.ran[-1]
