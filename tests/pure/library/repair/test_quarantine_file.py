# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The file of what is in quarantine: whose word counts, what stays, and what a damaged file is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.text.strict import bounded
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import (
    EMPTY,
    MOST_GPUS,
    OPERATOR,
    PATH,
    REPAIR,
    Quarantine,
    Quarantined,
    Seen,
    data_of,
    dump,
    elsewhere,
    fence,
    fence_node,
    parse,
    release,
    release_node,
)
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_800_000_000.0
A, B = "GPU-a", "GPU-b"
OURS = Quarantined(OPERATOR, "XID 79 twice", "OPS-1", NOW, "1650", "0000:0f:00.0")
REPAIRS = OURS._replace(author=REPAIR, reason="XID 48", ticket="")

texts = st.text(max_size=8).map(bounded)
entries = st.builds(
    Quarantined,
    st.sampled_from((OPERATOR, REPAIR)),
    texts.filter(bool),
    texts,
    st.integers(0, 4_000_000_000).map(float),
    texts,
    texts,
)
of_nodes = entries.map(lambda one: one._replace(serial="", pci=""))
names = st.sampled_from((A, B, "GPU-c"))
states = st.builds(Quarantine, st.dictionaries(names, entries, max_size=3), st.none() | of_nodes)


@given(states)
def test_what_was_written_is_read_again(found: Quarantine) -> None:
    assert parse(dump(found)) == found


@given(states, names, entries)
def test_repair_takes_nothing_from_an_operator(
    found: Quarantine, uuid: str, entry: Quarantined
) -> None:
    by_repair = entry._replace(author=REPAIR)
    for after in (fence(found, uuid, by_repair), release(found, uuid, REPAIR)):
        for one, before in found.gpus.items():
            if before.author == OPERATOR or one != uuid:
                assert after.gpus[one] == before
    for after in (
        fence_node(found, by_repair._replace(serial="", pci="")),
        release_node(found, REPAIR),
    ):
        if found.node is not None and found.node.author == OPERATOR:
            assert after.node == found.node


@given(states, names, entries)
def test_what_is_fenced_twice_is_fenced_once_and_an_operators_release_ends_it(
    found: Quarantine, uuid: str, entry: Quarantined
) -> None:
    once = fence(found, uuid, entry)
    assert fence(once, uuid, entry._replace(since=entry.since + 60)) == once
    assert uuid in once.gpus
    assert uuid not in release(once, uuid, OPERATOR).gpus
    assert release(release(once, uuid, OPERATOR), uuid, OPERATOR) == release(once, uuid, OPERATOR)


def test_a_new_reason_does_not_begin_it_anew_and_an_operator_takes_it_over_from_a_repair() -> None:
    later = OURS._replace(reason="a fan", since=NOW + 60)
    assert fence(Quarantine({A: REPAIRS}), A, later).gpus[A] == later._replace(since=NOW)


def test_where_a_gpu_was_is_kept_while_nothing_newer_is_known_of_it() -> None:
    unknown = OURS._replace(serial="", pci="")
    assert fence(Quarantine({A: OURS}), A, unknown).gpus[A] == OURS
    moved = OURS._replace(pci="0000:3b:00.0")
    assert fence(Quarantine({A: OURS}), A, moved).gpus[A] == moved


def test_there_is_room_for_as_many_gpus_as_no_machine_has_and_not_for_more() -> None:
    full = Quarantine({f"GPU-{number}": OURS for number in range(MOST_GPUS)})
    assert fence(full, "GPU-1", REPAIRS) == full
    with pytest.raises(NodeError, match=f"{MOST_GPUS} GPUs, and takes no more.*Next step"):
        fence(full, A, OURS)


def test_what_a_person_reads_says_by_whom_since_when_why_and_with_which_ticket() -> None:
    assert str(OURS) == (
        "in quarantine since 2027-01-15T08:00:00Z by an operator: XID 79 twice (ticket OPS-1)"
    )
    assert str(REPAIRS) == "in quarantine since 2027-01-15T08:00:00Z by gpu.node.repair: XID 48"


def test_a_gpu_that_moved_and_one_that_was_replaced_are_told() -> None:
    found = Quarantine({A: OURS})
    same = Seen(A, "1650", "0000:0f:00.0")
    assert elsewhere(found, [same]) == ()
    (moved,) = map(str, elsewhere(found, [same._replace(pci="0000:3b:00.0")]))
    assert "is at 0000:3b:00.0, and was at 0000:0f:00.0" in moved
    (replaced,) = map(str, elsewhere(found, [Seen(B, "1777", "0000:0f:00.0")]))
    assert replaced.startswith(
        f"{B} (serial number 1777) is at 0000:0f:00.0, where {A} (serial number 1650) was "
    )
    assert "run gpu.node.release for it" in replaced


def test_another_gpu_in_its_slot_is_not_told_of_where_both_are_known() -> None:
    new = Seen(B, "1777", "0000:0f:00.0")
    assert elsewhere(Quarantine({A: OURS, B: OURS}), [new]) == ()
    (moved,) = map(str, elsewhere(Quarantine({A: OURS}), [new, Seen(A, "1650", "0000:3b:00.0")]))
    assert moved.startswith(f"{A} is at 0000:3b:00.0")


def test_without_a_file_nothing_is_in_quarantine() -> None:
    assert parse(None) == EMPTY


WHOLE = data_of(Quarantine({A: OURS}, OURS._replace(serial="", pci="")))


def damaged(**changes: Any) -> dict[str, Any]:
    return {**WHOLE, **changes}


def entry(**changes: Any) -> dict[str, Any]:
    return {A: {**WHOLE["gpus"][A], **changes}}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (damaged(version=2), "version 2 is not known, 1 is"),
        (damaged(version=True), "version True is not known"),
        (damaged(more=1), "it: expected version, gpus, node"),
        (damaged(gpus=[]), f"at most {MOST_GPUS} GPUs by the GPUs' UUIDs"),
        (damaged(gpus={f"GPU-{one}": {} for one in range(MOST_GPUS + 1)}), "at most"),
        (damaged(gpus={"": {}}), "gpus: '' is no UUID"),
        (damaged(gpus={"GPU-\x1b": {}}), "is no UUID"),
        (damaged(gpus={A: {}}), f"gpus.{A}: expected by, reason, ticket, since, serial, pci"),
        (damaged(gpus=entry(by="root")), f"gpus.{A}.by: 'root' is not known"),
        (damaged(gpus=entry(by=["root"])), "is not known"),
        (damaged(gpus=entry(reason="")), f"gpus.{A}.reason: expected why"),
        (damaged(gpus=entry(reason="x" * 501)), "a text of at most 500 characters"),
        (damaged(gpus=entry(ticket=7)), f"gpus.{A}.ticket: expected a text"),
        (damaged(gpus=entry(since=7)), "7 is no time such as 1970-01-01T00:00:00Z"),
        (damaged(gpus=entry(since="2027-01-15")), "is no time such as"),
        (damaged(node=WHOLE["gpus"][A]), "node: expected by, reason, ticket, since"),
        (damaged(node=[]), "node: expected"),
    ],
)
def test_what_is_not_as_we_write_it_is_damaged_and_names_what_is_wrong(
    data: dict[str, Any], words: str
) -> None:
    with pytest.raises(NodeError) as refused:
        parse(json.dumps(data))
    said = str(refused.value)
    assert said.startswith(f"{PATH} is damaged: ")
    assert words in said
    assert "Next step: " in said


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_whatever_stands_there_is_read_or_damaged(text: str) -> None:
    with pytest.raises(NodeError, match="is damaged"):
        parse(text)


def test_a_file_that_is_too_long_or_too_deep_is_damaged() -> None:
    for text in ("[" * 100_000, json.dumps({"version": "x" * (1 << 20)})):
        with pytest.raises(NodeError, match="is damaged"):
            parse(text)
