# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""One run changes a node at a time, and a change that was cut off or has failed is neither hidden nor in the way."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.plugin_utils.controller.run import this_run

from tests.machine.playbooks.scene import Scene

UPGRADE = "upgrade_driver"
ALONE = {"host": "ctl-2", "machine": "another", "begun": "2026-01-01T00:00:00Z"}
TAKE_OVER = {"gpu_nodes_take_over": "true"}


def marked(one: Scene, **changes: Any) -> str:
    """Put the marker of a run that goes on, this one, on the node, and return it."""
    text = json.dumps({**this_run("reboot")._asdict(), **changes})
    one.marker("n1").write_text(text)
    return text


def untouched(one: Scene, marker: str) -> bool:
    """Return whether a node is as it was."""
    looked = all(word.endswith(" check") for word in one.log("n1"))
    return looked and not one.hooks("n1") and one.marker("n1").read_text() == marker


@pytest.fixture
def hooked(one: Scene) -> Scene:
    """Return a node with hooks that needs each of the changes."""
    hooks = {
        f"gpu_nodes_hooks_{word}": [one.hook(word, delegate_to="localhost")]
        for word in ("before", "after", "failed")
    }
    cluster = {"gpu_nodes_kubeconfig": "cluster.conf"}
    one.write(nvidia_driver_version="580", mig_selected="half", **cluster, **hooks)
    return one


@pytest.mark.parametrize(
    ("playbook", "options"),
    [
        (UPGRADE, ("--check",)),
        ("gpu_nodes", ()),
        pytest.param(UPGRADE, (), marks=pytest.mark.long),
        pytest.param("gpu_nodes", ("--check",), marks=pytest.mark.long),
    ],
)
def test_a_node_that_a_run_changes_is_refused_to_others(
    hooked: Scene, playbook: str, options: tuple[str, ...]
) -> None:
    marker = marked(hooked)
    run = hooked.play(playbook, options=options, **TAKE_OVER)
    assert run.status == 2, run.text
    me = this_run("reboot")
    assert f"is in the middle of reboot by {me.user} on {me.host}, begun 20" in run.text
    assert f"goes on as process {me.pid}. Next step: wait until it has ended" in run.text
    assert untouched(hooked, marker)


def test_a_run_that_comes_while_another_is_in_its_hook_leaves_the_node_to_it(one: Scene) -> None:
    more = {"gpu_nodes_reboot": "always", "gpu_nodes_hooks_before": []}
    other = shlex.join(one.command("reboot", site="second.yml", **more))
    hook = one.hook("other", command=f"{other} >{one.folder}/said; echo $? >{one.folder}/n1/hooks")
    one.write(nvidia_driver_version="580", gpu_nodes_hooks_before=[hook])
    run = one.play(UPGRADE)
    assert run.status == 0, run.text
    why = "reboot: n1: nothing was touched: the node is in the middle of upgrade_driver by"
    assert why in (one.folder / "said").read_text()
    assert one.hooks("n1") == ["2"]
    assert one.node("n1")["nvidia_driver"] == "580"
    assert not one.marker("n1").exists()


def test_of_two_runs_that_begin_at_the_same_moment_one_goes_on(hooked: Scene) -> None:
    hooked.become("n1", puts={"drain drained check": {"in-service": "another's"}})
    run = hooked.play(UPGRADE)
    assert run.status == 2, run.text
    assert "nothing was touched: another run has begun to change the node" in run.text
    assert untouched(hooked, "another's")


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({**ALONE, "begun": this_run("").begun}, TAKE_OVER),
        pytest.param(
            *({**ALONE, "begun": this_run("").begun}, {"gpu_nodes_take_over_after": "0"}),
            marks=pytest.mark.long,
        ),
        pytest.param(ALONE, {}, marks=pytest.mark.long),
    ],
)
def test_a_change_by_another_controller_is_taken_over_once_it_is_over(
    hooked: Scene, changes: dict[str, str], more: dict[str, str]
) -> None:
    marker = marked(hooked, **changes)
    if more:
        refused = hooked.play("mig")
        assert refused.status == 2, refused.text
        assert "run again with -e gpu_nodes_take_over=true" in refused.text
        assert untouched(hooked, marker)
    run = hooked.play("mig", **more)
    assert run.status == 0, run.text
    assert "the node is in the middle of reboot by" in run.text
    assert hooked.hooks("n1") == ["before", "after"]
    assert not hooked.marker("n1").exists()


def test_a_change_that_has_failed_is_gone_on_with_from_any_controller(hooked: Scene) -> None:
    hooked.become("n1", fails={"nvidia_driver present": "apt failed"})
    assert hooked.play(UPGRADE).status == 2
    left = json.loads(hooked.marker("n1").read_text())
    assert (left["change"], left["failed"]) == (UPGRADE, "apt failed")
    hooked.become("n1", fails={})
    hooked.marker("n1").write_text(json.dumps({**left, "host": "ctl-2"}))
    run = hooked.play(UPGRADE)
    assert run.status == 0, run.text
    assert not hooked.marker("n1").exists()


@pytest.mark.long
def test_a_plan_that_is_refused_leaves_the_marker_of_the_change_that_is_to_be_finished(
    hooked: Scene,
) -> None:
    marker = marked(hooked, failed="apt failed")
    hooked.become("n1", fails={"mig check": "the layout does not fit"})
    run = hooked.play("mig")
    assert run.status == 2, run.text
    assert "the layout does not fit. The node stays out of service" in run.text
    assert hooked.marker("n1").read_text() == marker


def test_a_bring_up_leaves_a_node_that_was_cut_off_to_what_finishes_it(hooked: Scene) -> None:
    assert hooked.play(UPGRADE, cut_off_at="Driver").status < 0
    hooked.become("n1", log=[])
    run = hooked.play("gpu_nodes")
    assert run.status == 2, run.text
    assert "Next step: run gpu.node.upgrade_driver to its end, which puts the node back" in run.text
    assert hooked.node("n1")["device_plugin"][0] == "stopped"
    assert hooked.log("n1") == []

    anyway = hooked.play("gpu_nodes", **TAKE_OVER)
    assert anyway.status == 0, anyway.text
    assert hooked.node("n1")["device_plugin"][0] == "started"
    assert hooked.marker("n1").exists()


def test_a_check_says_that_a_change_is_to_be_finished(hooked: Scene) -> None:
    marker = marked(hooked, failed="apt failed")
    hooked.become("n1", nvidia_driver="580")
    run = hooked.play(UPGRADE, options=["--check"])
    assert run.status == 0, run.text
    assert "n1 would go through all steps, from the hooks and the drain on: the node" in run.text
    assert "reboot by" in run.text
    assert "has failed: apt failed" in run.text
    assert "changed=1" in run.text
    assert untouched(hooked, marker)


def test_a_run_removes_no_marker_but_its_own(hooked: Scene) -> None:
    hooked.become("n1", puts={"validate": {"in-service": "another's"}})
    run = hooked.play(UPGRADE)
    assert run.status == 0, run.text
    assert hooked.marker("n1").read_text() == "another's"
    assert "another run has taken n1 over" in run.text


@pytest.mark.parametrize(
    "last",
    [
        "nvidia_driver present",
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in (
                "drain drained",
                "device_plugin stopped",
                "cdi present",
                "device_plugin started",
            )
        ),
    ],
)
def test_a_node_that_is_lost_in_the_middle_is_told_of_and_counts(scene: Any, last: str) -> None:
    two = scene("n1", "n2")
    hook = {"gpu_nodes_hooks_failed": [two.hook("failed", delegate_to="localhost")]}
    variables = {"gpu_nodes_kubeconfig": "cluster.conf", "gpu_nodes_max_unavailable": 2, **hook}
    two.write({"n1": two.leaving("n1")}, nvidia_driver_version="580", **variables)
    two.become("n1", puts={last: {"gone": ""}})
    run = two.play(UPGRADE)
    assert run.status == 2, run.text
    assert two.log("n1")[-2:] == [last, "drain cordoned"]
    state, reason = two.node("n1")["drain"]
    assert state == "cordoned"
    assert "127.0.0.1 port 1: Connection refused" in reason
    assert two.hooks("n1") == ["failed"]
    assert two.marker("n1").exists()
    assert "The node stays out of service, as the drain left it" in run.text
    assert two.node("n2")["nvidia_driver"] == "580"


@pytest.mark.long
def test_what_a_hook_of_the_user_has_left_out_is_not_passed_over(one: Scene) -> None:
    leaves = one.hook("leaves", command=f"touch {one.folder}/n1/gone")
    one.write({"n1": one.leaving("n1")}, nvidia_driver_version="580")
    run = one.play(UPGRADE, gpu_nodes_hooks_before=[leaves, one.hook("unmounts")])
    assert run.status == 4, run.text
    assert one.log("n1") == ["nvidia_driver present check"]
    assert one.marker("n1").exists()
