# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What may be a label, whose it is, and which configuration one chooses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.labels.owned import NFD, OURS, REFUSED, Change, NodeState, change, value
from gpu_plugin.labels.settings import Configs, NoChoice, choose, extra, fallbacks
from hypothesis import given
from hypothesis import strategies as st

VALID = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?")


@given(st.text(max_size=200), st.sampled_from(["", "MIG-1g.10gb", "MIG-1g.10gb.me-SHARED"]))
def test_every_text_becomes_a_valid_value(text: str, suffix: str) -> None:
    found = value(text, suffix)
    assert VALID.fullmatch(found)
    assert found.endswith(suffix)


@given(st.from_regex(r"\A[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z"))
def test_a_valid_value_stays_as_it_is(text: str) -> None:
    assert value(text) == text


def test_characters_that_no_label_has_are_replaced() -> None:
    for text, expected in (
        ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("Power  Edge\tR750", "Power-Edge-R750"),
        ("Machine (v2)/x", "Machine-v2x"),
        ("...", ""),
    ):
        assert value(text) == expected, text


def test_a_products_kind_is_not_cut_off() -> None:
    assert value("X" * 80, "SHARED") == "X" * 56 + "-SHARED"


def test_labels_of_the_users_own_are_checked() -> None:
    for text, words in (
        ("a", "key=value pairs"),
        ("a/b/c=1", "a label's key"),
        ("-a=1", "a label's key"),
        ("Exa.com/a=1", "a label's key"),
        ("node.kubernetes.io/a=1", "none of kubernetes.io"),
        ("example.com/a=b c", "up to 63"),
        (f"a={'x' * 64}", "up to 63"),
    ):
        with pytest.raises(InputError, match=words):
            extra("extra", text)


def test_labels_of_the_users_own() -> None:
    text = "gpu.node/runtime-handler=nvidia, example.com/empty=,plain=1"
    assert extra("extra", text) == {
        "gpu.node/runtime-handler": "nvidia",
        "example.com/empty": "",
        "plain": "1",
    }


def applied(node: NodeState, planned: Change) -> NodeState:
    """What a merge patch makes of a node."""
    parts = []
    for before, part in ((node.labels, planned.labels), (node.annotations, planned.annotations)):
        merged = {**before, **part}
        parts.append({key: text for key, text in merged.items() if text is not None})
    return NodeState(*parts)


KEYS = st.sampled_from(["nvidia.com/gpu.count", "nvidia.com/gpu.product", "a/b", "c"])
LABELS = st.dictionaries(KEYS, st.sampled_from(["", "1", "2"]))


@given(LABELS, LABELS, LABELS, st.sampled_from(["", "bad file"]))
def test_all_of_ours_goes_and_all_of_others_stays(
    others: dict[str, str], first: dict[str, str], second: dict[str, str], refused: str
) -> None:
    node = NodeState({key: text for key, text in others.items() if key not in first | second})
    before = dict(node.labels)
    for wanted in (first, second):
        node = applied(node, change(node, wanted, refused))
        assert node.labels == {**before, **wanted}
        assert not change(node, wanted, refused)  # the second time there is nothing to do
    node = applied(node, change(node, {}))
    assert node == NodeState(before)


def test_labels_that_nfd_keeps_are_left_to_it() -> None:
    node = NodeState({"a": "theirs", "b": "old"}, {NFD: "a,feature-x", OURS: "b"})
    planned = change(node, {"a": "ours", "b": "new"})
    assert (planned.labels, planned.left) == ({"b": "new"}, ("a",))


def test_a_label_that_somebody_removed_or_changed_is_set_again() -> None:
    node = NodeState({"a": "changed"}, {OURS: "a,b"})
    assert change(node, {"a": "1", "b": "2"}).labels == {"a": "1", "b": "2"}


def test_the_body_names_only_what_changes() -> None:
    node = NodeState({"a": "1", "old": "x"}, {OURS: "a,old"})
    assert change(node, {"a": "1"}).body == {
        "metadata": {"labels": {"old": None}, "annotations": {OURS: "a"}}
    }
    told = change(NodeState({}, {REFUSED: "why"}), {})
    assert told.body == {"metadata": {"annotations": {REFUSED: None}}}


def test_a_configuration_is_chosen_by_label_default_and_fallback() -> None:
    for label, names, default, strategies, expected in (
        ("b", ["a", "b"], "a", "named", "b"),
        ("", ["a", "b"], "a", "named", "a"),
        ("", ["a", "default"], "", "single,named", "default"),
        ("", ["a"], "", "named,single", "a"),
        ("", ["a", "b"], "", "named,single,empty", None),
        ("", [], "", "empty", None),
    ):
        assert choose(label, names, default, fallbacks("x", strategies)) == expected, strategies


def test_why_no_configuration_is_chosen_is_said() -> None:
    for label, names, default, words in (
        ("c", ["a", "b"], "", "no configuration 'c', which the node's label names: there are a, b"),
        ("", ["a"], "d", "no configuration 'd', which the default names"),
        ("", ["a", "b"], "", "no configuration is chosen"),
        ("", [], "", "there are none"),
    ):
        with pytest.raises(NoChoice, match=words):
            choose(label, names, default, ("named", "single"))


def test_unknown_strategies_are_refused() -> None:
    with pytest.raises(InputError, match="'first' is not valid: expected one of named, single"):
        fallbacks("fallback-strategies", "named,first")


def test_a_folder_that_fails_is_a_refusal_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "default").write_text("version: v1")
    configs = Configs(tmp_path, tmp_path / "link")
    before = configs.stamp()

    def fail(_path: Path) -> list[Path]:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "iterdir", fail)
        assert configs.stamp() != before
        assert "Input/output error" in configs.follow("")
    assert configs.stamp() == before
    assert configs.follow("") == ""
