# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page about troubleshooting, and others of what can go wrong, quote messages as the code has them."""

from __future__ import annotations

import pytest

from tests.docs.tables import messages

OURS = [one for one in messages.quoted() if one not in messages.OTHERS | messages.ELSEWHERE]


def test_messages_are_found_in_the_pages() -> None:
    assert len(OURS) > 30


def test_the_messages_of_the_page_are_those_of_the_code() -> None:
    assert {one: lacking for one in OURS if (lacking := messages.missing(one))} == {}


def test_what_others_say_is_on_their_pages() -> None:
    assert [one for one in messages.OTHERS if one not in messages.PAGE.read_text()] == []
    assert messages.ELSEWHERE.difference(messages.quoted()) == set()


def test_a_message_that_nothing_says_is_seen() -> None:
    assert messages.missing("Secure Boot is on") == []
    assert messages.missing("Secure Boot is ... off for ever") == ["off for ever"]


# What nodes said when the runbooks were written, without what differs from node to node.
OUTPUT = {
    "not-accepted": ["held: ", "it was never tested", "less than its floor of "],
    "xid-79": [
        "it has fallen off the bus",
        ": no reset brings it back",
        "no reset can help: ",
        "it is proved and given back",
    ],
    "pod-pending": ["gpu-plugin is not running: this is what it knew when it ended"],
    "node-not-ready": [
        "the NVIDIA driver is not loaded",
        "see the kernel's log for the missing ones (journalctl -k -g NVRM)",
        "once the driver is loaded",
    ],
    "mps-pods-hang": ["the control daemon does not answer", "its control socket is held by "],
    "driver-stuck": [
        "the node is in the middle of ",
        "kernel modules are loaded, the packages have the ",
        "it goes on there and puts the node back",
    ],
}


@pytest.mark.parametrize("page", OUTPUT)
def test_what_a_runbook_shows_is_what_nodes_still_say(page: str) -> None:
    text = (messages.ROOT / f"docs/runbooks/{page}.md").read_text()
    assert [one for one in OUTPUT[page] if one not in text] == []
    assert {one: lacking for one in OUTPUT[page] if (lacking := messages.missing(one))} == {}


def test_each_runbook_is_held_to_what_nodes_say() -> None:
    assert {one.stem for one in (messages.ROOT / "docs/runbooks").glob("*.md")} == set(OUTPUT)
