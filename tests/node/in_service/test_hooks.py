# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Hooks are found where their users put them, and refused before anything is touched where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.node.in_service.scene import Scene

NAMES = ("gpu_nodes_hooks_before", "nvidia_driver_hooks_after")


@pytest.mark.parametrize("place", ["playbooks", "inventory", "folder", "absolute"])
def test_a_hook_is_found(one: Scene, place: str, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" if place == "absolute" else getattr(one, place)
    folder.mkdir(exist_ok=True)
    name = one.hook("found", folder)
    one.write(
        nvidia_driver_version="580",
        gpu_nodes_hooks_before=[str(folder / name) if place == "absolute" else name],
    )
    run = one.play("upgrade_driver")
    assert run.status == 0, run.text
    assert one.hooks("n1") == ["found"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("drain.yml", "'drain.yml' is not valid: expected a list of task files"),
        (["no.yml"], "'no.yml' was not found: looked in {0}/site, {0}/inventory, {0}, "),
        (["/no/such.yml"], "'/no/such.yml' was not found. Next step: correct the path"),
    ],
)
def test_a_bad_hook_is_refused_before_the_plan(
    three: Scene, name: str, value: Any, said: str
) -> None:
    three.write({"n2": {name: value}}, nvidia_driver_version="580")
    run = three.play("upgrade_driver")
    assert run.status == 2
    assert f"variables: n2: {name}: {said.format(three.folder)}" in run.text
    assert [three.log(node) for node in three.names] == [[], [], []]


def test_a_failure_runs_its_hooks_and_says_what_did_not_run(one: Scene) -> None:
    one.become("n1", fails={"validate": "the device plugin is not serving"})
    one.write(
        nvidia_driver_version="580",
        gpu_nodes_hooks_before=[one.hook("before")],
        gpu_nodes_hooks_failed=[one.hook("failed")],
        gpu_nodes_hooks_after=[one.hook("after")],
    )
    run = one.play("upgrade_driver")
    assert run.status == 2, run.text
    assert one.hooks("n1") == ["before", "failed"]
    assert (
        "the device plugin is not serving. The node stays out of service, as the hooks left it"
        in run.text
    )
    one.become("n1", fails={})
    assert one.play("upgrade_driver").status == 0
    assert one.hooks("n1") == ["before", "failed", "before", "after"]


def test_a_hook_that_fails_is_named(one: Scene) -> None:
    path = one.playbooks / "full.yml"
    path.write_text("- name: Drain\n  ansible.builtin.fail:\n    msg: the queue is full\n")
    one.write(
        nvidia_driver_version="580",
        gpu_nodes_hooks_before=["full.yml"],
        gpu_nodes_hooks_failed=["full.yml"],
    )
    run = one.play("upgrade_driver")
    assert run.status == 2
    assert "upgrade_driver: n1: the queue is full. The node stays out of service" in run.text
    assert "gpu_nodes_hooks_failed: n1: the queue is full" in run.text
    assert one.node("n1")["nvidia_driver"] == "550"
