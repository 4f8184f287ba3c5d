# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The display of a playbook's progress: what it shows of each task."""

from __future__ import annotations

import ast
import inspect

import pytest
from ansible_collections.gpu.node.plugins.callback import progress

from tests.fakes.plays.plays import Play, block

OK = {"name": "Go on", "speaks": {"answer": {"changed": True, "steps": [{"summary": "create 1g"}]}}}
FAILS = {"name": "Partition", "speaks": {"fail": "mig: no room\nNext step: less"}}
SAYS = {"name": "Say so", "ansible.builtin.debug": {"msg": "has no NVIDIA GPU"}}
WARNS = {
    "name": "Install",
    "speaks": {"warn": ["the kernel has no modules of the driver"], "old": "it is old"},
}
RESCUED = {
    "block": [{"block": [{**FAILS, "name": "Inner"}]}],
    "rescue": [{"name": "Mend", "speaks": {}}],
    "always": [{**FAILS, "name": "After all", "ignore_errors": True}],
}
RETRIED = {
    "name": "Wait",
    "ansible.builtin.shell": "test -e there || { touch there; echo not there >&2; exit 1; }",
    "register": "waited",
    "until": "waited is success",
    "retries": 5,
    "delay": 0,
}
LOOP = {
    "name": "Each",
    "speaks": {"fail": "{{ 'item is bad' if item == 'b' else omit }}", "warn": ["of {{ item }}"]},
    "loop": ["a", "b"],
    "ignore_errors": True,
}
SPECS = {
    "name": "Check the types",
    "ansible.builtin.validate_argument_spec": {
        "argument_spec": {"mig_wait": {"type": "int", "required": True}}
    },
    "loop": ["mig"],
    "ignore_errors": True,
}
SECRET = {
    "name": "Secret",
    "speaks": {"fail": "s3cret", "warn": ["s3cret"], "answer": {"diff": {"prepared": "s3cret"}}},
    "no_log": True,
    "ignore_errors": True,
}
SKIPPED = {"name": "Not here", "speaks": {}, "when": "inventory_hostname == 'n9'"}
DEAD = {"name": "Dead", "dies": {}, "ignore_errors": True}
INCLUDED = {"name": "Hooks", "ansible.builtin.include_tasks": "nowhere.yml"}
ALL = [OK, SAYS, WARNS, RESCUED, RETRIED, LOOP, SPECS, SECRET, SKIPPED, DEAD, INCLUDED]


@pytest.fixture(scope="module")
def shown(shared_play: Play) -> str:
    return shared_play.run(ALL)


@pytest.fixture(scope="module")
def shown_v(shared_play: Play) -> str:
    return shared_play.run(ALL, "-v", "--diff")


def test_change_shows_its_steps(shown: str) -> None:
    line, *below = block(shown, "Go on")
    assert line.split()[0] == "+"
    assert line.split()[-3:] == ["n1", "Go", "on"]
    assert below == ["- create 1g"]


def test_work_of_the_controller_is_silent_and_not_counted(play: Play) -> None:
    quiet = {"name": "Quiet", "ansible.builtin.set_fact": {"x": 1}}
    text = play.run([quiet, OK, {"name": "So it is", "ansible.builtin.assert": {"that": "x == 1"}}])
    assert "Quiet" not in text
    assert "So it is" not in text
    assert "n1: changed=1 ok=3 failed=0 unreachable=0 module calls=1\n" in text


def test_skipped_node_is_told_why(shown: str) -> None:
    line = block(shown, "has no NVIDIA GPU")[0]
    assert line.split()[0] == "i"


def test_warnings_and_deprecations_are_shown_below_their_task(shown: str) -> None:
    line, *below = block(shown, "Install")
    assert line.split()[0] == "="
    assert below == [
        "warning: the kernel has no modules of the driver",
        "deprecated: it is old (until gpu.node 9.0.0)",
    ]


def test_deprecations_can_be_switched_off_as_ansible_says(play: Play) -> None:
    text = play.run([WARNS], ANSIBLE_DEPRECATION_WARNINGS="false")
    assert "warning: the kernel" in text
    assert "it is old" not in text


def test_warnings_of_silent_tasks_are_shown_with_their_task_and_once(play: Play) -> None:
    template = {"name": "Test", "ansible.builtin.assert": {"that": "{{ 1 == 1 }}"}}
    text = play.run([template, {**template, "name": "Again"}])
    assert block(text, "Test")[1].startswith("deprecated: Conditionals should not be surrounded")
    assert "(until ansible-core 2." in text
    assert "Again" not in text
    assert text.splitlines()[6].split() == ["n1", "1", "ok"]


def test_a_failed_include_has_its_text(shown: str) -> None:
    line, *below = block(shown, "Hooks")
    assert line.split()[0] == "!"
    assert "nowhere.yml" in below[0]


def test_reasons_stand_below_the_line_of_their_host(shown: str) -> None:
    line, *below = block(shown, "Check the types")
    assert line.split()[:1] + line.split()[3:4] == ["~", "n1"]
    assert below[0].startswith("mig: Validation of arguments failed:")
    assert "missing required arguments: mig_wait" in below[1]


def test_what_a_dead_module_wrote_is_shown(shown: str) -> None:
    below = "\n".join(block(shown, "Dead"))
    assert "no more memory" in below
    assert "half an answer" in below
    assert "exit status 137" in below


def test_rescued_and_ignored_failures_are_no_failures(shown: str) -> None:
    for name, state in (("Inner", "rescued"), ("After all", "ignored")):
        line, *below = block(shown, f"{name}: failed, {state}")
        assert line.split()[0] == "~"
        assert below == ["mig: no room", "Next step: less"]
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("  ! ")] == [
        "Hooks"
    ] * 2


def test_what_a_rescue_does_is_not_rescued_itself(play: Play) -> None:
    text = play.run([{"block": [FAILS], "rescue": [{**FAILS, "name": "Mend"}]}])
    assert block(text, "n1  Mend")[0].split()[0] == "!"
    assert "Partition: failed, rescued" in text


def test_a_rescue_reaches_into_included_tasks(play: Play) -> None:
    (play.folder / "more.yml").write_text(
        '[{"name": "Deep", "ansible.builtin.fail": {"msg": "no"}}]'
    )
    include = {"ansible.builtin.include_tasks": "more.yml"}
    text = play.run([{"block": [include], "rescue": [SAYS]}])
    assert "Deep: failed, rescued" in text
    assert "failed=0" in text


def test_retries_are_counted(shown: str, shown_v: str) -> None:
    assert block(shown, "Wait")[1:] == ["after 2 attempts"]
    assert "Wait: not yet, attempt 2 of 6 follows" not in shown


def test_retries_are_told_with_v(play: Play) -> None:
    below = block(play.run([RETRIED], "-v"), "Wait: not yet, attempt 2 of 6 follows")
    assert "not there" in "\n".join(below)


def test_failed_items_are_named_with_their_reasons_and_warnings(shown: str) -> None:
    _line, *below = block(shown, "Each: failed, ignored")
    assert below == ["b: item is bad", "warning: of a", "warning: of b"]


def test_nothing_of_no_log_is_shown(shown: str, shown_v: str, play: Play) -> None:
    loud = play.run([SECRET, {**SECRET, "loop": ["s3cret"]}], "-vvv", "--diff")
    for text in (shown, shown_v, loud):
        assert "s3cret" not in text
        assert "its output is hidden (no_log)" in text
        assert "warning: hidden (no_log)" in text


def test_v_shows_what_was_skipped_and_why(shown: str, shown_v: str) -> None:
    assert "Not here" not in shown
    assert (
        block(shown_v, "Not here: skipped, inventory_hostname == 'n9' is false")[0].split()[0]
        == "-"
    )


def test_v_shows_results_and_vvv_what_was_given(play: Play) -> None:
    one = {
        "name": "Ask",
        "speaks": {"answer": {"loaded_version": "550.163.01", "gpus": [{"index": 0}]}},
    }
    assert "loaded_version" not in play.run([one])
    below = block(play.run([one], "-v"), "Ask")[1:]
    assert below == ["loaded_version: 550.163.01", "gpus:", "  - index: 0"]
    assert "warn: []" in play.run([one], "-vvv", ANSIBLE_INJECT_INVOCATION="true")


def test_vvv_shows_the_traceback(play: Play) -> None:
    (play.folder / "library/breaks.py").write_text(
        "#!/usr/bin/python3\nimport nowhere_to_be_found\n"
    )
    one = {"name": "Breaks", "breaks": {}}
    assert "Traceback" in play.run([one], "-vvv")


@pytest.mark.parametrize("many", [41])
def test_long_lists_are_shortened_and_whole_with_v(play: Play, many: int) -> None:
    names = [f"pkg{one} (550.163)" for one in range(many)]
    one = {
        "name": "Get",
        "speaks": {"answer": {"steps": [{"summary": f"install {', '.join(names)}"}]}},
    }
    assert block(play.run([one]), "Get")[1:] == [f"- install {', '.join(names[:3])} and 38 more"]
    assert f"- install {', '.join(names)}" in play.run([one], "-v")


def test_nothing_that_ansible_core_marks_as_deprecated_is_used() -> None:
    used = {
        one.attr
        for one in ast.walk(ast.parse(inspect.getsource(progress)))
        if isinstance(one, ast.Attribute)
    }
    assert not used & {"_host", "_task", "_result", "task_fields", "_task_fields", "v2_on_any"}
    assert {"host", "task", "result"} <= used
