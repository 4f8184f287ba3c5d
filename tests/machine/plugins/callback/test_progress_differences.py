# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Steps and differences below the task that they are of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.plays.plays import Play, block

UNIT = "[Unit]\nDescription=GPUs\n\tindented \n"


def changes(name: str, before: Any, after: Any, **more: Any) -> dict[str, Any]:
    answer = {"changed": True, "diff": {"before": before, "after": after}, **more}
    return {"name": name, "speaks": {"answer": answer}}


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        ("create 1g", "would create 1g"),
        ("GPU 6: destroy 1g", "GPU 6: would destroy 1g"),
        ("/etc/cdi/nvidia.yaml: add 0:0", "/etc/cdi/nvidia.yaml: would add 0:0"),
        ("refresh the lists: apt-get update", "would refresh the lists: apt-get update"),
    ],
)
def test_check_mode_says_would(play: Play, summary: str, shown: str) -> None:
    one = changes("Change", "", "", steps=[{"summary": summary}])
    text = play.run([one], "--check")
    assert block(text, "Change")[1:] == [f"- {shown}"]
    assert text.splitlines()[1] == "A play (check mode: nothing is changed)"


def test_differences_stand_below_the_line_of_their_task_and_host(play: Play) -> None:
    tasks = [
        changes("First", "a\n", "b\n", steps=[{"summary": "x"}]),
        changes("Second", "c\n", "d\n"),
    ]
    text = play.run(tasks, "--check", "--diff", hosts=("n1", "n2"))
    lines = [line.rpartition("s  ")[2].strip() for line in text.splitlines()]
    first = ["- would x", "@@ -1 +1 @@", "-a", "+b"]
    second = ["@@ -1 +1 @@", "-c", "+d"]
    for host in ("n1", "n2"):
        for name, below in (("First", first), ("Second", second)):
            start = lines.index(f"{host}  {name}")
            assert lines[start + 1 : start + 1 + len(below)] == below


def test_steps_are_not_repeated_by_the_difference_that_has_them_for_other_displays(
    play: Play,
) -> None:
    both = {
        "diff": {"before": "a\n", "after": "b\n", "prepared": "- x\n"},
        "steps": [{"summary": "x"}],
    }
    one = {"name": "First", "speaks": {"answer": {"changed": True, **both}}}
    below = block(play.run([one], "--diff"), "First")[1:]
    assert [line.strip() for line in below] == ["- x", "@@ -1 +1 @@", "-a", "+b"]


def test_differences_are_shown_only_where_they_are_asked_for(play: Play) -> None:
    assert "+b" not in play.run([changes("First", "a\n", "b\n")])
    loud = {**changes("First", "a\n", "b\n"), "diff": True}
    assert "+b" in play.run([loud])


def test_texts_in_json_are_shown_as_texts(play: Play) -> None:
    before, after = ({"unit": UNIT, "port": one} for one in (9402, 9403))
    texts = [json.dumps(one, indent=2) for one in (before, {**after, "unit": UNIT + "After=x\n"})]
    below = block(play.run([changes("Deploy", *texts)], "--diff"), "Deploy")[1:]
    assert "  +  After=x" in below
    assert "     \tindented " in below
    assert "\\n" not in "".join(below)


def test_long_differences_are_cut_and_whole_with_v(play: Play) -> None:
    after = "".join(f"line {one}\n" for one in range(852))
    text = play.run([changes("Describe", "", after)], "--diff")
    below = block(text, "Describe")[1:]
    assert below[-1] == "  … 813 more lines, all with -v"
    assert len(below) == 41
    assert "+line 851" in play.run([changes("Describe", "", after)], "--diff", "-v")


def test_differences_of_a_loop_name_their_items(play: Play) -> None:
    one = {**changes("Each", "a\n", "{{ item }}\n"), "loop": ["b", "c"]}
    below = block(play.run([one], "--diff"), "Each")[1:]
    assert [below[0], below[4]] == ["b: changed", "c: changed"]
    assert [below[3].strip(), below[7].strip()] == ["+b", "+c"]


def test_genuine_differences_of_a_module_of_ansible(play: Play) -> None:
    file = play.folder / "there"
    file.write_text("old\n")
    copy = {"content": "new\n", "dest": str(file)}
    text = play.run([{"name": "Write", "ansible.builtin.copy": copy}], "--check", "--diff")
    below = [one.strip() for one in block(text, "Write")[1:]]
    assert below[-3:] == ["@@ -1 +1 @@", "-old", "+new"]
    assert str(file) in below[0]
    assert file.read_text() == "old\n"
