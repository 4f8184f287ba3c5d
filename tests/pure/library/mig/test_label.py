# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a label of the node may lead to."""

from __future__ import annotations

import configparser

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._mig import label
from ansible_collections.gpu.node.plugins.module_utils._mig.config import Declared
from ansible_collections.gpu.node.plugins.module_utils._mig.label import (
    ANSWER,
    ASKED,
    FAILED,
    PATH_UNIT,
    PENDING,
    STATES,
    SUCCESS,
    UNIT,
    Answer,
    Decision,
    Request,
    Units,
    answered,
    check,
    decide,
    plan,
    refusal,
    warnings,
)
from hypothesis import given
from hypothesis import strategies as st

OFF = [{"devices": "all", "mig-enabled": False}]
LAYOUTS = {"a": OFF, "b": OFF, "c/d": OFF}  # the last can't be a label's value
DECLARED = Declared({"version": "v1", "mig-configs": LAYOUTS}, "a", by_label=True)
names = st.sampled_from(["", "a", "b", "c/d", "unknown", "all-disabled"])
digests = st.sampled_from(["1", "2"])
requests = st.builds(Request, names, digests)
answers = st.builds(
    Answer, st.none() | requests, st.sampled_from(["", *STATES]), st.text(max_size=3), st.booleans()
)


@given(names, st.none() | st.just(DECLARED), digests, st.none() | answers, st.booleans())
def test_a_label_gets_only_what_the_file_names(
    name: str, declared: Declared | None, digest: str, answer: Answer | None, chosen: bool
) -> None:
    found = decide(name, declared, digest, answer, chosen=chosen)
    assert (found.state in STATES) == bool(name)
    if found.request is not None:
        assert found.request == Request(name, digest)
        assert not name or (declared is not None and name in ("a", "b"))
    else:
        assert found.state in ("", FAILED)
        assert found.reason or not name
    if found.state == SUCCESS:
        assert answer is not None
        assert (answer.asked, answer.state) == (Request(name, digest), SUCCESS)
    if name and found.request is None:
        assert found.state == FAILED
    # Who asks once more ends doing so as soon as the service has seen to it.
    if found.request is not None:
        for state in (SUCCESS, FAILED):
            assert answered(found, Answer(found.request, state))
        assert answered(found, Answer(found.request, PENDING, alive=True))
        assert not answered(found, Answer(found.request, PENDING))
        assert not answered(found, None)


def test_states_in_their_order() -> None:
    one = Request("b", "1")

    def said(answer: Answer | None) -> Decision:
        return decide("b", DECLARED, "1", answer, chosen=False)

    assert said(None) == Decision(PENDING, "it has been asked for", one)
    assert said(Answer(Request("a", "1"), SUCCESS)).state == PENDING
    assert said(Answer(Request("b", "0"), SUCCESS)).state == PENDING  # of an earlier file
    assert said(Answer(one, PENDING, "in use")) == Decision(PENDING, "in use", one)
    assert said(Answer(one, SUCCESS)) == Decision(SUCCESS, "", one)


def test_a_label_that_goes_gives_up_what_it_chose() -> None:
    gone = Decision("", "", Request("", "1"))
    assert decide("", DECLARED, "1", None, chosen=False) == Decision()
    assert decide("", DECLARED, "1", None, chosen=True) == gone
    assert decide("", DECLARED, "1", Answer(Request("b", "1"), PENDING), chosen=False) == gone


def test_what_can_not_be_had_is_told() -> None:
    assert decide("x", DECLARED, "1", None, chosen=True) == Decision(
        FAILED, "mig_config has no layout 'x': it has a, b"
    )
    off = decide("a", None, "1", None, chosen=True)
    assert off.state == FAILED
    assert "mig_by_label is not set" in off.reason
    assert (
        refusal(Declared([], "", by_label=True), "a") == "mig_config has no layout 'a': it has none"
    )


@given(requests.filter(lambda one: one.name != "c/d"))
def test_a_request_is_read_as_it_was_written(request_: Request) -> None:
    assert Request.load(request_.dump(), "x") == request_
    assert Answer.of({"asked": request_._asdict(), "state": PENDING}, alive=True) == Answer(
        request_, PENDING, alive=True
    )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"name": "c/d", "digest": ""}', '{"name": "a", "digest": 1}'],
)
def test_a_damaged_request_is_none(text: str) -> None:
    with pytest.raises(NodeError, match="x is damaged"):
        Request.load(text, "x")


@given(st.dictionaries(st.sampled_from(["asked", "state", "reason"]), st.none() | st.integers()))
def test_an_answer_that_is_none_is_no_answer(data: dict[str, object]) -> None:
    assert Answer.of(data, alive=False)[:2] == (None, "")


# --- which layout holds ---


def test_the_label_wins_where_labels_may_choose() -> None:
    assert DECLARED.selection("b").label == "b"
    assert DECLARED.selection("").label == "a"
    assert DECLARED.selection("gone").label == "a"
    assert DECLARED.selection("all-disabled").label == "a"  # not one of the file's
    assert DECLARED._replace(by_label=False).selection("b").label == "a"


def test_with_nothing_selected_nothing_is_changed_before_a_label_asks() -> None:
    nothing = DECLARED._replace(selected="").selection()
    assert (nothing.label, nothing.specs) == ("", [])
    one = Declared({"only": OFF}, "", by_label=True)
    assert one.selection().label == "only"  # as without labels
    with pytest.raises(InputError, match="selected: '' is not valid"):
        DECLARED._replace(selected="", by_label=False).selection()
    with pytest.raises(InputError, match=r"config\.b"):
        Declared({"a": OFF, "b": []}, "", by_label=True).selection()


def test_the_file_of_before_is_the_same_without_labels() -> None:
    plain = Declared({"a": OFF}, "a", by_label=False)
    assert "by_label" not in plain.dump()
    assert Declared.load(plain.dump(), "x") == plain
    assert Declared.load(DECLARED.dump(), "x") == DECLARED


def test_what_goes_against_the_users_own_word_is_told() -> None:
    assert warnings(DECLARED, "a") == []
    assert warnings(DECLARED, "b") == [
        "mig: the node's label nvidia.com/mig.config chose b, which counts and not a"
    ]
    (gone,) = warnings(DECLARED, "x")
    assert "mig_config has no layout 'x': it has a, b" in gone
    assert "a counts instead" in gone


@pytest.mark.parametrize(
    ("declared", "boot", "words"),
    [
        (Declared(None, "all-balanced", by_label=True), True, "layouts by their names"),
        (Declared(OFF, "", by_label=True), True, "layouts by their names"),
        (DECLARED, False, "labels choose from the file that it writes"),
    ],
)
def test_what_labels_can_not_choose_from_is_refused(
    declared: Declared, boot: bool, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        check(declared, boot=boot)
    check(DECLARED, boot=True)


# --- units ---

ON = Units(label.TEXTS, {"UnitFileState": "enabled", "ActiveState": "active"})
NONE = Units(dict.fromkeys(label.TEXTS), {})


def actions(units: Units, *, wanted: bool) -> list[str]:
    return [step.action for step in plan(units, desired=wanted)]


def test_units_come_and_go() -> None:
    assert actions(NONE, wanted=True) == ["boot_unit", "boot_unit", "boot_enable"]
    assert actions(ON, wanted=True) == []
    assert actions(ON._replace(path={}), wanted=True) == ["boot_enable"]
    old = {**label.TEXTS, UNIT: "old"}
    assert actions(ON._replace(texts=old), wanted=True) == ["boot_unit", "boot_enable"]
    assert actions(ON, wanted=False) == ["boot_remove"]
    assert actions(NONE, wanted=False) == []
    (step,) = plan(ON, desired=False)
    assert step.params["disable"] == ["--now", PATH_UNIT, UNIT]
    gone = step.params["remove"]
    for path in (ASKED, ANSWER, label.CHOSEN):
        assert path in gone or path.rpartition("/")[0] in gone


def test_the_path_unit_waits_for_the_file_and_the_service_needs_it() -> None:
    units = {}
    for name, text in label.TEXTS.items():
        units[name] = configparser.RawConfigParser(strict=False, delimiters="=")
        units[name].read_string(text)
    assert units[PATH_UNIT]["Path"]["PathChanged"] == ASKED
    assert "Install" not in units[UNIT]
    # Nothing else is written beside what is waited for.
    folder = ASKED.rpartition("/")[0]
    assert not any(one.startswith(f"{folder}/") for one in (ANSWER, label.CHOSEN))
