# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""apt's sources, and those of our own."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.packages.apt import (
    Source,
    additions,
    parse_deb822,
    parse_one_line,
    render,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt import Apt
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.apt_sources import (
    FOLDER,
    OWN_SOURCES,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.fakes import FakeHost

KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
WANTED = ("contrib", "non-free")
MAIN = Source("http://mirror/debian", "trixie", ("main",))
UPDATES = dataclasses.replace(MAIN, suite="trixie-updates")
SECURITY = Source("http://mirror/debian-security", "trixie-security", ("main",), KEY)
ONE_LINE = f"""\
# deb http://old/debian trixie main
deb http://mirror/debian trixie main contrib # ours
  deb [arch=amd64 signed-by={KEY}] http://mirror/debian-security trixie-security main
deb-src http://mirror/debian trixie main
deb http://other/flat ./
"""
DEB822 = f"""\
# the mirror
Types: deb deb-src
URIs: http://mirror/debian http://second/debian
Suites: trixie
# trixie-backports
 trixie-updates
Components: main
Signed-By: {KEY}

Enabled: no
Types: deb
URIs: http://old/debian
Suites: trixie
Components: main

Types: deb-src
URIs: http://mirror/debian
Suites: trixie
Components: main
"""
WORDS = st.from_regex(r"[a-z0-9][a-z0-9./+-]{0,12}", fullmatch=True)
SOURCES = st.builds(
    Source, WORDS, WORDS, st.lists(WORDS, min_size=1).map(tuple), WORDS | st.just("")
)


def test_sources_of_one_line_are_read() -> None:
    assert parse_one_line(ONE_LINE) == [
        Source("http://mirror/debian", "trixie", ("main", "contrib")),
        dataclasses.replace(SECURITY, options=(("Architectures", "amd64"),)),
        Source("http://other/flat", "./", ()),
    ]


def test_options_of_one_line_are_fields_of_deb822() -> None:
    options = (
        'arch=amd64,arm64 lang-=de target+=Contents-deb trusted=yes inrelease-path="x/y" pdiffs=no'
    )
    (source,) = parse_one_line(f"deb [ {options} ] http://mirror/debian trixie main\n")
    assert dict(source.options) == {
        "Architectures": "amd64 arm64",
        "Languages-Remove": "de",
        "Targets-Add": "Contents-deb",
        "Trusted": "yes",
        "InRelease-Path": "x/y",
        "PDiffs": "no",
    }
    assert parse_deb822(render([source])) == [source]


def test_all_fields_of_a_stanza_are_kept_but_those_of_an_entry() -> None:
    fields = "enabled: yes\nX-Note: of the site\nTargets: Packages\n Translations\n"
    (source,) = parse_deb822(f"{render([MAIN])}{fields}")
    assert source.options == (("X-Note", "of the site"), ("Targets", "Packages\n Translations"))
    assert parse_deb822(render([source])) == [source]


def test_entries_of_other_architectures_are_no_sources_of_the_node() -> None:
    entries = "deb [arch=arm64] http://ports/ubuntu-ports noble main\n"
    entries += "deb [arch-=amd64] http://odd/ubuntu noble main\n"
    entries += "deb [arch+=i386] http://mirror/ubuntu noble main\n"
    host = FakeHost({"/etc/apt/sources.list": entries})
    host.commands[("dpkg", "--print-architecture")] = Completed(0, "amd64\n", "")
    assert [source.uri for source in Apt(host, 0, "the driver").sources()] == [
        "http://mirror/ubuntu"
    ]


def test_sources_in_deb822_are_read() -> None:
    assert parse_deb822(DEB822) == [
        Source(f"http://{host}/debian", suite, ("main",), KEY)
        for host in ("mirror", "second")
        for suite in ("trixie", "trixie-updates")
    ]


@pytest.mark.parametrize("word", ["no", "False", "off"])
def test_disabled_stanza_is_left_out(word: str) -> None:
    stanza = render([MAIN])
    assert parse_deb822(stanza) == [MAIN]
    assert parse_deb822(f"{stanza}Enabled: {word}\n") == []


def test_files_of_both_formats_are_read_and_ours_and_what_apt_ignores_is_not() -> None:
    host = FakeHost({"/etc/apt/sources.list": "deb http://mirror/debian trixie main\n"})
    stanza = render([UPDATES])
    host.files[f"{FOLDER}/debian.sources"] = stanza
    host.files[f"{FOLDER}/more.list"] = (
        f"deb [signed-by={KEY}] {SECURITY.uri} {SECURITY.suite} main\n"
    )
    host.files[OWN_SOURCES] = stanza.replace("mirror", "ours")
    host.files[f"{FOLDER}/old.list.save"] = "deb http://old/debian trixie main\n"
    assert Apt(host, 0, "the driver").sources() == (MAIN, UPDATES, SECURITY)


@given(st.lists(SOURCES))
def test_own_file_reads_as_it_was_meant(sources: list[Source]) -> None:
    assert parse_deb822(render(sources)) == sources


def test_key_that_stands_in_the_file_itself_is_kept() -> None:
    key = "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEZ\n -----END PGP PUBLIC KEY BLOCK-----"
    source = dataclasses.replace(MAIN, signed_by=key)
    assert parse_deb822(render([source, MAIN])) == [source, MAIN]


@given(
    st.text()
    | st.lists(st.sampled_from([*ONE_LINE.split("\n"), *DEB822.split("\n")])).map("\n".join)
)
def test_no_text_breaks_the_parsers(text: str) -> None:
    for source in [*parse_one_line(text), *parse_deb822(text)]:
        assert source.uri.split() == [source.uri]
        assert source.suite.split() == [source.suite]
        assert additions([source], source.suite, ()) in ([], None)


def test_every_suite_of_the_release_gets_what_it_lacks() -> None:
    found = additions([MAIN, UPDATES, SECURITY], "trixie", WANTED)
    assert found == [
        dataclasses.replace(one, components=WANTED) for one in (MAIN, UPDATES, SECURITY)
    ]


def test_what_is_enabled_is_not_enabled_again() -> None:
    contrib = dataclasses.replace(MAIN, components=("contrib",))
    assert additions([MAIN, contrib], "trixie", WANTED) == [
        dataclasses.replace(MAIN, components=("non-free",))
    ]
    full = dataclasses.replace(MAIN, components=("main", *WANTED))
    assert additions([full], "trixie", WANTED) == []


def test_release_may_be_named_by_its_place() -> None:
    stable = dataclasses.replace(MAIN, suite="stable")
    found = additions(
        [stable, dataclasses.replace(UPDATES, suite="stable-updates")], "trixie", WANTED
    )
    assert [one.suite for one in found or []] == ["stable", "stable-updates"]


def test_mirror_of_somebody_else_is_not_taken_for_debian() -> None:
    foreign = Source("http://vendor/packages", "trixie", ("main",))
    found = additions([foreign, MAIN], "trixie", WANTED)
    assert [one.uri for one in found or []] == [MAIN.uri]
    renamed = additions([foreign], "trixie", WANTED)
    assert [one.uri for one in renamed or []] == [foreign.uri]


def test_node_without_a_source_of_its_release() -> None:
    assert additions([MAIN], "bookworm", WANTED) is None
    assert additions([], "trixie", WANTED) is None
    contrib = dataclasses.replace(MAIN, components=("contrib",))
    assert additions([contrib], "trixie", WANTED) is None
