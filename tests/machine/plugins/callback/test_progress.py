# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The display of a playbook's progress: what it shows of each task."""

from __future__ import annotations

import pytest

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
QUIET = {"name": "Quiet", "ansible.builtin.set_fact": {"x": 1}}
ASSERTED = {"name": "So it is", "ansible.builtin.assert": {"that": "x == 1"}}
TEMPLATE = {"name": "Test", "ansible.builtin.assert": {"that": "{{ 1 == 1 }}"}}
PACKAGES = [f"pkg{one} (550.163)" for one in range(41)]
LONG = {
    "name": "Get",
    "speaks": {"answer": {"steps": [{"summary": f"install {', '.join(PACKAGES)}"}]}},
}
ASKED = {"loaded_version": "550.163.01", "gpus": [{"index": 0}]}
ASK = {"name": "Ask", "speaks": {"answer": ASKED}}
WRITTEN = {"changed": True, "diff": {"before": "a\n", "after": "b\n"}}
WRITE = {"name": "Write", "speaks": {"answer": WRITTEN}}
LOUD = {**WRITE, "name": "Write and tell", "diff": True}
DEEP = {
    "block": [{"ansible.builtin.include_tasks": "more.yml"}],
    "rescue": [{"name": "After the include", "speaks": {}}],
}
BREAKS = {"name": "Breaks", "breaks": {}, "ignore_errors": True}
INCLUDED = {"name": "Hooks", "ansible.builtin.include_tasks": "nowhere.yml"}
MENDS = {"block": [FAILS], "rescue": [{**FAILS, "name": "Mend"}]}
GOES_ON = [OK, SAYS, WARNS, RESCUED, RETRIED, LOOP, SPECS, SECRET, SKIPPED, DEAD, QUIET, ASSERTED]
GOES_ON += [TEMPLATE, {**TEMPLATE, "name": "Again"}, LONG, ASK, WRITE, LOUD, DEEP]
FAILS_AT_LAST = [
    {**INCLUDED, "when": "inventory_hostname == 'n1'"},
    {**MENDS, "when": "inventory_hostname == 'n2'"},
]
ALL = [
    {"name": "Goes on", "hosts": "n1", "gather_facts": False, "tasks": GOES_ON},
    {"name": "Fails", "hosts": "all", "gather_facts": False, "tasks": FAILS_AT_LAST},
]


def run(play: Play, *words: str, **settings: str) -> str:
    (play.folder / "more.yml").write_text(
        '[{"name": "Deep", "ansible.builtin.fail": {"msg": "no"}}]'
    )
    (play.folder / "there").unlink(missing_ok=True)
    return play.run(ALL, *words, hosts=("n1", "n2"), **settings)


@pytest.fixture(scope="module")
def shown(shared_play: Play) -> str:
    return run(shared_play)


@pytest.fixture(scope="module")
def shown_v(shared_play: Play) -> str:
    return run(shared_play, "-v", "--diff", ANSIBLE_DEPRECATION_WARNINGS="false")


@pytest.fixture(scope="module")
def shown_vvv(shared_play: Play) -> str:
    (shared_play.folder / "library/breaks.py").write_text(
        "#!/usr/bin/python3\nimport nowhere_to_be_found\n"
    )
    tasks = [SECRET, {**SECRET, "loop": ["s3cret"]}, ASK, BREAKS]
    return shared_play.run(tasks, "-vvv", "--diff", ANSIBLE_INJECT_INVOCATION="true")


def test_change_shows_its_steps(shown: str) -> None:
    line, *below = block(shown, "Go on")
    assert line.split()[0] == "+"
    assert line.split()[-3:] == ["n1", "Go", "on"]
    assert below == ["- create 1g"]


def test_work_of_the_controller_is_silent(shown: str) -> None:
    assert "Quiet" not in shown
    assert "So it is" not in shown


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


@pytest.mark.long
def test_deprecations_can_be_switched_off_as_ansible_says(shown_v: str) -> None:
    assert "warning: the kernel" in shown_v
    assert "it is old" not in shown_v


def test_warnings_of_silent_tasks_are_shown_with_their_task_and_once(shown: str) -> None:
    said = "deprecated: Conditionals should not be surrounded"
    assert block(shown, "  Test")[1].startswith(said)
    assert "(until ansible-core 2." in shown
    assert "Again" not in shown
    assert shown.count(said) == 1


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
    gone = [line.split()[-1] for line in shown.splitlines() if line.startswith("  ! ")]
    assert gone == ["Hooks", "Mend"] * 2


def test_what_a_rescue_does_is_not_rescued_itself(shown: str) -> None:
    assert block(shown, "n2  Mend")[0].split()[0] == "!"
    assert "n2  Partition: failed, rescued" in shown


def test_a_rescue_reaches_into_included_tasks(shown: str) -> None:
    assert "n1  Deep: failed, rescued" in shown


def test_retries_are_counted(shown: str) -> None:
    assert block(shown, "Wait")[1:] == ["after 2 attempts"]
    assert "Wait: not yet, attempt 2 of 6 follows" not in shown


def test_retries_are_told_with_v(shown_v: str) -> None:
    below = block(shown_v, "Wait: not yet, attempt 2 of 6 follows")
    assert "not there" in "\n".join(below)


def test_failed_items_are_named_with_their_reasons_and_warnings(shown: str) -> None:
    _line, *below = block(shown, "Each: failed, ignored")
    assert below == ["b: item is bad", "warning: of a", "warning: of b"]


def test_nothing_of_no_log_is_shown(shown: str, shown_v: str, shown_vvv: str) -> None:
    for text in (shown, shown_v, shown_vvv):
        assert "s3cret" not in text
        assert "its output is hidden (no_log)" in text
        assert "warning: hidden (no_log)" in text


def test_v_shows_what_was_skipped_and_why(shown: str, shown_v: str) -> None:
    assert "Not here" not in shown
    assert (
        block(shown_v, "Not here: skipped, inventory_hostname == 'n9' is false")[0].split()[0]
        == "-"
    )


def test_v_shows_results_and_vvv_what_was_given(shown: str, shown_v: str, shown_vvv: str) -> None:
    assert "loaded_version" not in shown
    below = block(shown_v, "n1  Ask")[1:]
    assert below == ["loaded_version: 550.163.01", "gpus:", "  - index: 0"]
    assert "warn: []" in shown_vvv


def test_vvv_shows_the_traceback(shown_v: str, shown_vvv: str) -> None:
    assert "Traceback" not in shown_v
    assert "Traceback" in shown_vvv


def test_long_lists_are_shortened_and_whole_with_v(shown: str, shown_v: str) -> None:
    assert block(shown, "n1  Get")[1:] == [f"- install {', '.join(PACKAGES[:3])} and 38 more"]
    assert f"- install {', '.join(PACKAGES)}" in shown_v


def test_differences_are_shown_only_where_they_are_asked_for(shown: str, shown_v: str) -> None:
    assert block(shown, "n1  Write")[1:] == []
    for one in (block(shown, "n1  Write and tell"), block(shown_v, "n1  Write")):
        assert "  +b" in one


def test_a_warning_of_many_nodes_is_told_once_and_counted(play: Play) -> None:
    old = {
        "name": "Install",
        "speaks": {"warn": ["the driver 550 is of branch 550", "of n1 alone"]},
    }
    old["speaks"]["warn"][1] = "of {{ inventory_hostname }} alone"
    text = play.run([old, {**old, "name": "Again"}], hosts=("n1", "n2", "n3"))
    assert text.count("the driver 550 is of branch 550") == 2, "with its task, and at the end"
    assert "  3 nodes: warning: the driver 550 is of branch 550\n" in text
    assert [text.count(f"of {name} alone") for name in ("n1", "n2", "n3")] == [1, 1, 1]
    rows = [line.split() for line in text.splitlines() if line.startswith(("  n1  ", "  n2  "))]
    assert [row[1] for row in rows] == ["2", "2"], "each node has both"


@pytest.mark.long
def test_what_is_the_same_on_many_nodes_is_shown_once(play: Play) -> None:
    steps = [{"summary": "create 1g"}, {"summary": "create 2g"}, {"summary": "of {{ own }}"}]
    same = {"name": "Make", "speaks": {"answer": {"changed": True, "steps": steps}}}
    hosts = {name: {"own": own} for name, own in (("n1", "a"), ("n2", "a"), ("n3", "b"))}
    text = play.run([same, FAILS], hosts=hosts)
    first, other = sorted(("n1", "n2"), key=lambda one: text.index(f"{one}  Make"))
    assert block(text, f"{first}  Make")[1:] == ["- create 1g", "- create 2g", "- of a"]
    assert block(text, f"{other}  Make")[1:] == [f"as on {first}"]
    assert block(text, "n3  Make")[1:] == ["- create 1g", "- create 2g", "- of b"]
    reason = ["mig: no room", "Next step: less"]
    told = [block(text, f"{one}  Partition")[1:] for one in hosts]
    first = next(name for name, said in zip(hosts, told, strict=True) if said == reason)
    assert sorted(told) == sorted([reason, [f"as on {first}"], [f"as on {first}"]])
    again = ["  ! 3 nodes: Partition", *(" " * 6 + one for one in ("n1, n2, n3", *reason))]
    assert "\n".join(again) in text
    assert play.run([same], "-v", hosts=hosts).count("- create 1g") == 3


@pytest.mark.long
def test_a_handler_that_changed_nothing_has_no_line(play: Play) -> None:
    handlers = [
        {"name": "Forget", "speaks": {}},
        {"name": "Restart", "speaks": {"answer": {"changed": True}}},
    ]
    told = {**OK, "notify": ["Forget", "Restart"]}
    plays = [
        {
            "name": "A play",
            "hosts": "all",
            "gather_facts": False,
            "tasks": [told],
            "handlers": handlers,
        }
    ]
    text = play.run(plays)
    assert "Forget" not in text
    assert block(text, "n1  Restart")[0].split()[0] == "+"
    assert "n1  Forget" in play.run(plays, "-v")


def test_a_plan_is_shown_once(play: Play) -> None:
    planned = {**LONG, "name": "Remove, planned only", "check_mode": True}
    again = {**planned, "name": "Remove all the same, planned only"}
    text = play.run([planned, again, {**LONG, "name": "Remove"}])
    assert block(text, "Remove, planned only")[1:] == [
        f"- would install {', '.join(PACKAGES[:3])} and 38 more"
    ]
    assert block(text, "Remove all the same, planned only")[1:] == ["as planned above"]
    assert text.count("- install pkg0") == 1
