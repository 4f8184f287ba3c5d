# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""zypper's locks, its configuration and its words, as genuine ones were seen, and what rpm is asked before it."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.zypper import (
    configuration,
    disabled,
    failed_scripts,
    in_the_way,
    locked,
    messages,
    skipped,
    without,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.dnf import Dnf
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.rpm import Rpm
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
    host.commands["rpm", "-q"] = Completed(1, "package nvidia-compute-G06 is not installed\n", "")
    manager(host, 0, "the driver").purge(["nvidia-compute-G06"])
    assert [argv for argv in host.ran if "remove" in argv]


# zypper 1.14.42 with --xmlout search, and a repository that nothing answers for.
UNREADABLE = """\
<?xml version='1.0'?>
<stream>
<message type="error">Download (curl) error for &apos;http://mirror/repodata/repomd.xml&apos;:
Error code: Connection failed
Error message: Failed to connect to mirror port 80 after 0 ms: Couldn&apos;t connect to server
</message>
<message type="error">Error building the cache:
[tools|http://mirror/] Valid metadata not found at specified URL
History:
 - Unknown error reading from &apos;http://mirror/&apos;
 - ABORT request: Aborting requested by user
</message>
<message type="warning">Skipping repository &apos;Tools&apos; because of the above error.</message>
<message type="error">Error building the cache:
[dvd|cd:/] Valid metadata not found at specified URL
History:
 - ABORT request: Aborting requested by user
 - Failed to mount cd:/ on : Mounting media failed
</message>
<message type="warning">Skipping repository &apos;DVD&apos; because of the above error.</message>
<message type="error">Some of the repositories have not been refreshed because of an error.</message>
<message type="info">No matching items found.</message>
</stream>
"""
NO_ANSWER = "<stream><message type='error'>Unexpected exception.</message></stream>"


def test_repositories_that_zypper_skips_are_named_with_its_reasons() -> None:
    tools, dvd = skipped(UNREADABLE)
    assert (tools.name, tools.alias) == ("Tools", "tools")
    assert tools.reason == (
        "[tools|http://mirror/] Valid metadata not found at specified URL; "
        "Failed to connect to mirror port 80: Couldn't connect to server"
    )
    assert dvd.reason.endswith("; Failed to mount cd:/ on : Mounting media failed")
    assert messages(UNREADABLE).split("\n") == ["No matching items found.", str(tools), str(dvd)]
    assert skipped("plain") == []


@pytest.mark.parametrize("status", [0, 104, 106])
def test_answer_without_some_repositories_is_an_answer(status: int) -> None:
    host = FakeHost(commands={("zypper",): Completed(status, UNREADABLE, "")})
    manager = Zypper(host, 0, "the driver")
    assert manager.policies(["nvidia-compute-G06"]) == {}
    assert [*manager.warnings] == [str(repository) for repository in skipped(UNREADABLE)]


@pytest.mark.parametrize(
    ("status", "meaning"), [(1, "status 1, as a bug in zypper"), (105, "a signal"), (9, "status 9")]
)
def test_query_that_fails_is_an_error_with_its_status(status: int, meaning: str) -> None:
    host = FakeHost(commands={("zypper",): Completed(status, NO_ANSWER, "")})
    with pytest.raises(NodeError, match=f"zypper search failed with .*{meaning}") as error:
        Zypper(host, 0, "the driver").policies(["nvidia-compute-G06"])
    assert error.value.cause == "Unexpected exception."


def test_repository_is_named_once_whatever_the_queries_say() -> None:
    answers = iter([UNREADABLE, UNREADABLE.replace("0 ms", "12 ms").replace("mount", "find")])
    host = FakeHost(commands={("zypper",): lambda _argv: Completed(106, next(answers), "")})
    manager = Zypper(host, 0, "the driver")
    manager.known("nvidia-fabric")
    manager.policies(["nvidia-compute-G06"])
    assert [*manager.warnings] == [str(repository) for repository in skipped(UNREADABLE)]


def test_refresh_says_what_it_could_not_read() -> None:
    completed = Completed(4, UNREADABLE, "")
    host = FakeHost(commands={("zypper",): completed})
    note = Zypper(host, 0, "the driver").update()
    assert note == "; ".join(str(repository) for repository in skipped(UNREADABLE))
    host.commands["zypper",] = Completed(4, NO_ANSWER, "")
    manager = Zypper(host, 0, "the driver")
    assert (manager.update(), manager.update_aside()) == ("Unexpected exception.", False)
    host.commands["zypper",] = ""
    assert (manager.update(), manager.update_aside()) == ("", True)


def test_scripts_that_fail_are_found_in_what_rpm_says() -> None:
    text = "rpm: x\nwarning: %post(a-1-1.x86_64) scriptlet failed, exit status 1\nError: script\n"
    assert failed_scripts(text * 2) == [text.split("\n")[1]]
