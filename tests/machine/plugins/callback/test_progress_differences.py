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


FIRST = changes("First", "a\n", "b\n", steps=[{"summary": "x"}])
SECOND = changes("Second", "c\n", "d\n")
# The difference has the steps for displays that don't show them themselves.
BOTH = {"before": "a\n", "after": "b\n", "prepared": "- x\n"}
KEPT = {"changed": True, "diff": BOTH, "steps": [{"summary": "x"}]}
WOULD = {
    "create 1g": "would create 1g",
    "GPU 6: destroy 1g": "GPU 6: would destroy 1g",
    "/etc/cdi/nvidia.yaml: add 0:0": "/etc/cdi/nvidia.yaml: would add 0:0",
    "refresh the lists: apt-get update": "would refresh the lists: apt-get update",
}


@pytest.fixture(scope="module")
def checked(shared_play: Play) -> str:
    """Return what a check with differences shows of two nodes."""
    steps = [
        changes(f"Change {number}", "", "", steps=[{"summary": one}])
        for number, one in enumerate(WOULD)
    ]
    file = shared_play.folder / "there"
    file.write_text("old\n")
    write = {"name": "Write", "ansible.builtin.copy": {"content": "new\n", "dest": str(file)}}
    tasks = [*steps, FIRST, SECOND, write]
    text = shared_play.run(tasks, "--check", "--diff", hosts=("n1", "n2"))
    assert file.read_text() == "old\n"
    return text


@pytest.fixture(scope="module")
def applied(shared_play: Play) -> str:
    """Return what a run with differences shows."""
    before, after = ({"unit": UNIT, "port": one} for one in (9402, 9403))
    texts = [json.dumps(one, indent=2) for one in (before, {**after, "unit": UNIT + "After=x\n"})]
    kept = {"name": "Keep", "speaks": {"answer": KEPT}}
    each = {**changes("Each", "a\n", "{{ item }}\n"), "loop": ["b", "c"]}
    return shared_play.run([kept, changes("Deploy", *texts), each], "--diff")


def test_check_mode_says_would(checked: str) -> None:
    assert checked.splitlines()[1] == "A play (check mode: nothing is changed)"
    shown = [block(checked, f"Change {number}")[1:] for number, _one in enumerate(WOULD)]
    assert shown == [[f"- {one}"] for one in WOULD.values()]


def test_differences_stand_below_the_line_of_their_task_and_host(checked: str) -> None:
    lines = [line.rpartition("s  ")[2].strip() for line in checked.splitlines()]
    first = ["- would x", "@@ -1 +1 @@", "-a", "+b"]
    second = ["@@ -1 +1 @@", "-c", "+d"]
    for name, below in (("First", first), ("Second", second)):
        one, other = sorted(("n1", "n2"), key=lambda host: lines.index(f"{host}  {name}"))
        start = lines.index(f"{one}  {name}")
        assert lines[start + 1 : start + 1 + len(below)] == below
        assert lines[lines.index(f"{other}  {name}") + 1] == f"as on {one}"


def test_genuine_differences_of_a_module_of_ansible(checked: str) -> None:
    below = [one.strip() for one in block(checked, "Write")[1:]]
    assert below[-3:] == ["@@ -1 +1 @@", "-old", "+new"]
    assert "/there" in below[0]


def test_steps_are_not_repeated_by_the_difference(applied: str) -> None:
    below = block(applied, "Keep")[1:]
    assert [line.strip() for line in below] == ["- x", "@@ -1 +1 @@", "-a", "+b"]


def test_texts_in_json_are_shown_as_texts(applied: str) -> None:
    below = block(applied, "Deploy")[1:]
    assert "  +  After=x" in below
    assert "     \tindented " in below
    assert "\\n" not in "".join(below)


def test_differences_of_a_loop_name_their_items(applied: str) -> None:
    below = block(applied, "Each")[1:]
    assert [below[0], below[4]] == ["b: changed", "c: changed"]
    assert [below[3].strip(), below[7].strip()] == ["+b", "+c"]
