# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which lines of an archive of evidence lose what, and which stay as they are."""

from __future__ import annotations

import itertools
import random
import re
import string

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.text.excerpt import Excerpt
from ansible_collections.gpu.node.plugins.module_utils._base.text.masking import (
    MASK,
    masked,
    masked_text,
)
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from tests.pure.library.text.secret_lines import AUDITED, FURTHER, ORDINARY
from tests.support.waiting import alarm

ROWS = [(line, readable) for line, *readable in (*AUDITED, *FURTHER)]
PLACE = re.compile(r"<(U?)(\d+)>")
SHOWN = 5  # characters of a secret that are too many


def filled(line: str) -> tuple[str, list[str]]:
    """Return a line with secrets in their places, and the secrets."""
    chance = random.Random(line)
    secrets: list[str] = []

    def secret(place: re.Match[str]) -> str:
        letters = string.ascii_uppercase if place[1] else string.ascii_letters
        secrets.append("".join(chance.choices(letters + "234567", k=int(place[2]))))
        return secrets[-1]

    return PLACE.sub(secret, line), secrets


def pieces_of(secret: str) -> list[str]:
    """Return the parts of a secret that may not be seen, or a shorter one as a whole."""
    return [secret[at : at + SHOWN] for at in range(max(len(secret) - SHOWN, 0) + 1)]


def excerpt_of(pieces: list[bytes]) -> str:
    """Return what an archive has of a text that arrives in pieces."""
    result = bytearray()
    excerpt = Excerpt(result.extend, 1 << 20)
    for piece in pieces:
        excerpt.take(piece)
    excerpt.close()
    return result.decode()


@pytest.mark.attack("evidence-secret-left")
@pytest.mark.parametrize(("line", "readable"), ROWS)
def test_a_secret_is_masked_and_what_stands_around_it_is_not(
    line: str, readable: list[str]
) -> None:
    text, secrets = filled(line)
    for shown in (
        masked_text(text),
        excerpt_of([text.encode()]),
        masked({"stdout": text})["stdout"],
    ):
        assert MASK in shown
        assert not [piece for secret in secrets for piece in pieces_of(secret) if piece in shown]
        assert not [part for part in readable if part not in shown]
        assert masked_text(shown) == shown


@pytest.mark.attack("evidence-secret-left")
@run(deadline=None)
@given(
    st.lists(
        st.sampled_from([*[line for line, _readable in ROWS], *ORDINARY]), min_size=1, max_size=3
    ),
    st.lists(st.integers(0, 600), max_size=5),
)
def test_a_secret_is_masked_wherever_the_stream_is_cut(lines: list[str], cuts: list[int]) -> None:
    parts = [filled(line) for line in lines]
    data = "\n".join(text for text, _secrets in parts).encode()
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    shown = excerpt_of([data[start:end] for start, end in itertools.pairwise(bounds)])
    assert shown == excerpt_of([data])
    secrets = [secret for _text, found in parts for secret in found if len(secret) > SHOWN]
    assert not [secret for secret in secrets if secret in shown]


@pytest.mark.attack("evidence-secret-left")
@run(deadline=None)
@given(st.integers(0, 360), st.sampled_from([64, 70, 76]), st.booleans())
def test_a_private_key_is_masked_where_the_text_begins_or_ends_within_it(
    cut: int, width: int, begins: bool
) -> None:
    body, secrets = filled(f"<{width}>\n<{width}>\n<{width}>\n<21>=\n")
    kind = "RSA PRIVATE KEY-----\n"
    text = f"before it\n-----BEGIN {kind}{body}-----END {kind}after it\n"
    cut = min(cut, text.index("-----END") if begins else len(text))
    shown = excerpt_of([(text[cut:] if begins else text[:cut]).encode()])
    assert not [piece for secret in secrets for piece in pieces_of(secret) if piece in shown]


@pytest.mark.attack("evidence-secret-left")
@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_stays_as_it_is(line: str) -> None:
    text = f"{line}\n{ORDINARY[0]}\n"
    assert masked_text(text) == text
    assert excerpt_of([text.encode()]) == text


@pytest.mark.attack("evidence-secret-left")
def test_a_begin_that_somebody_writes_into_a_log_hides_no_line_of_it() -> None:
    log = "".join(f"{line}\n" for line in ORDINARY[:12])
    assert excerpt_of([f"comm=-----BEGIN PRIVATE KEY-----\n{log}".encode()]).endswith(f"\n{log}")


def test_an_argument_behind_its_option_is_masked_in_a_list() -> None:
    assert masked(["login", "-u", "ops:secret", "-p", "secret", "host"]) == [
        *("login", "-u", f"ops:{MASK}", "-p", MASK, "host")
    ]
    assert masked(["run", "-p", "8080:80", "-u", "1000:1000"])[2:] == ["8080:80", "-u", "1000:1000"]


@pytest.mark.attack("evidence-secret-left")
@pytest.mark.parametrize(
    "part",
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "eyJ-",
        "eyJ.",
        "sk-",
        "ghp_",
        "-p ",
        '-p "',
        "-u a:",
        "ipmi -P x ",
        "mysql -p",
        "_key=",
        "key",
        'a_key: "',
        "Bearer ",
        "A3T",
        "\0",
        "-p\0",
        "A \n",
        "ssh-a ",
        "[?sig=",
    ],
)
def test_a_hostile_text_takes_no_time(part: str) -> None:
    with alarm():
        masked_text(part * 30_000)
        excerpt_of([part.encode() * 30_000])
