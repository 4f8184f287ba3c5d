# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about troubleshooting, and others of what can go wrong, quote messages as the code has them."""

from __future__ import annotations

from tests.docs.tables import messages

OURS = [one for one in messages.quoted() if one not in messages.OTHERS | messages.SLURM]


def test_messages_are_found_in_the_pages() -> None:
    assert len(OURS) > 30


def test_the_messages_of_the_page_are_those_of_the_code() -> None:
    assert {one: lacking for one in OURS if (lacking := messages.missing(one))} == {}


def test_what_others_say_is_on_the_page() -> None:
    assert [one for one in messages.OTHERS if one not in messages.PAGE.read_text()] == []


def test_a_message_that_nothing_says_is_seen() -> None:
    assert messages.missing("Secure Boot is on") == []
    assert messages.missing("Secure Boot is ... off for ever") == ["off for ever"]
