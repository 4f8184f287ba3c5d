# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's label names a MIG layout: it is passed on to what makes it, and answered."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gpu_plugin import status
from gpu_plugin._shared._core.mig.boot import dump
from gpu_plugin._shared._core.mig.label import Request
from gpu_plugin.labels.choice.mig import AGAIN, MigByLabel, Paths
from gpu_plugin.tools.state import StateFile

from tests.fakes.daemon.labelling import LATE
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.labelling import Labeller, Start

LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
REASON = "gpu.node/mig.config-reason"
FAST = "flags: {migStrategy: mixed, gfd: {sleepInterval: 1s, noTimestamp: true}}\n"
MIG = {"mig-enabled": True, "devices": "all"}
LAYOUTS = {
    "halves": [{**MIG, "mig-devices": {"3g.40gb": 2}}],
    "whole": [{**MIG, "mig-devices": {"7g.80gb": 1}}],
}


def declare(paths: Paths, *, by_label: bool = True, **layouts: Any) -> None:
    config = {"version": "v1", "mig-configs": {**LAYOUTS, **layouts}}
    new = paths.config.with_suffix(".new")
    new.write_text(dump(config, "", by_label))
    new.replace(paths.config)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """The files of a node where labels may choose."""
    names = ("mig.json", "asked/asked.json", "answer.json", "state/chosen")
    found = Paths(*(tmp_path / name for name in names))
    declare(found)
    return found


def flags(paths: Paths) -> list[str]:
    files = {"config": paths.config, "asked": paths.asked, "answer": paths.answer}
    words = [f"--mig-{name}={path}" for name, path in {**files, "chosen": paths.chosen}.items()]
    return ["--mig-by-label=true", *words]


def words(paths: Paths) -> list[object]:
    found: list[object] = ["mig-label", "--config", paths.config, "--asked", paths.asked]
    found += ["--answer", paths.answer, "--chosen", paths.chosen]
    return [*found, "--status", paths.answer.with_name("status.json")]


def service(one: Labeller, paths: Paths) -> None:
    """Do once what gpu-mig-label.service does."""
    done = one.node.cli(*words(paths))
    assert done.returncode == 0, done.stderr


def asked(paths: Paths) -> str | None:
    return json.loads(paths.asked.read_text())["name"] if paths.asked.exists() else None


def test_the_label_asks_and_the_state_answers(labeller: Start, paths: Paths) -> None:
    one = labeller(1)
    one.start(FAST, *flags(paths))
    one.wait(gpu_count="1", mig_config_state=None)
    assert not paths.asked.exists()

    one.api.set(nvidia_com__mig_config="halves")
    one.wait(mig_config_state="pending")
    eventually(lambda: asked(paths))
    assert asked(paths) == "halves"
    service(one, paths)
    one.wait(mig_config_state="success", **{"mig-3g_40gb_count": "2"})
    eventually(lambda: one.api.events)
    assert [event["reason"] for event in one.api.events] == ["MIGConfigApplied"]
    assert one.api.events[0]["message"] == "the GPUs have the MIG layout halves"
    assert REASON not in one.api.own("annotations")
    made = {"name": "halves", "state": "success", "reason": ""}
    eventually(lambda: one.state()["mig"] == made)
    plugin = {"version": "1", "pid": 1, "state": "serving", "driver_version": "", "resources": {}}
    shown = status.describe({**plugin, "labels": one.state()})
    assert "MIG layout by label: halves: success" in shown.splitlines()

    holder = one.node.sim.hold(0, one.node.sim.ctl("status")["gpus"][0]["gis"][0]["id"], 0)
    one.api.set(nvidia_com__mig_config="whole")
    one.wait(mig_config_state="pending")
    process = one.node.python("-m", "gpu_plugin", *words(paths))
    eventually(lambda: "in use by process" in one.api.own("annotations").get(REASON, ""))
    assert one.api.own()[STATE] == "pending"
    one.node.sim.let_go(holder)
    one.wait(mig_config_state="success", **{"mig-7g_80gb_count": "1"})
    assert process.wait(LATE) == 0
    assert REASON not in one.api.own("annotations")

    one.api.set(nvidia_com__mig_config=None)
    one.wait(mig_config_state=None)
    eventually(lambda: asked(paths) == "")
    service(one, paths)
    assert not paths.chosen.exists()
    assert one.node.sim.ctl("status")["gpus"][0]["gis"]


def test_an_unknown_name_fails_and_never_reaches_the_service(labeller: Start, paths: Paths) -> None:
    one = labeller(1)
    one.start(FAST, *flags(paths))
    one.api.set(nvidia_com__mig_config="all-balanced")
    one.wait(mig_config_state="failed")
    reason = "mig_config has no layout 'all-balanced': it has halves, whole"
    eventually(lambda: one.api.own("annotations").get(REASON) == reason)
    eventually(lambda: one.api.events)
    (event,) = one.api.events
    assert (event["reason"], event["type"]) == ("MIGConfigFailed", "Warning")
    assert event["message"] == f"all-balanced: {reason}"
    assert not paths.asked.exists()
    eventually(lambda: one.state()["state"] == "labelled")  # labels are well

    # The playbook may bring the name later, and labels may be forbidden to choose.
    declare(paths, **{"all-balanced": LAYOUTS["whole"]})
    one.wait(mig_config_state="pending")
    assert asked(paths) == "all-balanced"
    declare(paths, by_label=False)
    one.wait(mig_config_state="failed")
    eventually(lambda: not paths.asked.exists())


def test_a_restart_asks_and_tells_nothing_twice(labeller: Start, paths: Paths) -> None:
    one = labeller(1)
    one.api.set(nvidia_com__mig_config="halves")
    one.start(FAST, *flags(paths))
    eventually(lambda: asked(paths))
    service(one, paths)
    one.wait(mig_config_state="success")
    eventually(lambda: len(one.api.events) == 1)
    before = paths.asked.stat().st_mtime_ns
    assert one.end() == 0
    one.start(FAST, *flags(paths))
    eventually(lambda: (one.state().get("mig") or {}).get("state") == "success")
    one.api.set(nvidia_com__gpu_count="7")
    one.wait(gpu_count="1")
    assert len(one.api.events) == 1
    assert paths.asked.stat().st_mtime_ns == before
    assert one.end() == 0
    assert one.once(FAST, *flags(paths), "--label-output=off", "--remove").returncode == 0
    assert one.api.own() == {LABEL: "halves"}
    assert one.api.own("annotations") == {}


def test_without_labels_of_its_own_the_state_is_still_answered(
    labeller: Start, paths: Paths
) -> None:
    one = labeller(1)
    one.api.set(nvidia_com__mig_config="halves")
    one.start(FAST, *flags(paths), "--label-output=off")
    one.wait(mig_config_state="pending")
    service(one, paths)
    one.wait(mig_config_state="success")
    assert set(one.api.own()) == {LABEL, STATE}


def test_it_is_off_unless_it_is_asked_for(labeller: Start, paths: Paths) -> None:
    one = labeller(1)
    one.api.set(nvidia_com__mig_config="halves")
    one.start(FAST, *flags(paths)[1:])
    one.wait(gpu_count="1")
    assert STATE not in one.api.own()
    assert not paths.asked.exists()


# --- what is asked, without a node ---


def answer(paths: Paths, name: str, state: str, reason: str = "", pid: int | None = None) -> None:
    request = Request.load(paths.asked.read_text(), "x")
    assert request.name == name
    told = {"asked": request._asdict(), "state": state, "reason": reason}
    StateFile(paths.answer, pid=pid).write(told)


def test_what_nobody_answers_is_asked_again(paths: Paths) -> None:
    now = [0.0]
    one = MigByLabel(paths, lambda: now[0])
    assert one.follow("halves")
    first = paths.asked.stat().st_ino

    def again(after: float) -> bool:
        nonlocal first
        now[0] += after
        one.follow("halves")
        before, first = first, paths.asked.stat().st_ino
        return before != first

    assert not again(AGAIN - 1)
    assert again(1)
    ended = subprocess.Popen(["true"])
    ended.wait()
    answer(paths, "halves", "pending", "in use", ended.pid)
    assert again(AGAIN)  # its process was killed
    answer(paths, "halves", "pending", "in use", os.getpid())
    assert not again(AGAIN)
    answer(paths, "halves", "failed", "it does not fit", ended.pid)
    assert not again(AGAIN)
    assert one.decision[:2] == ("failed", "it does not fit")
    declare(paths, other=LAYOUTS["whole"])  # another file is another chance
    assert again(0)


def test_a_file_that_is_damaged_is_told(paths: Paths) -> None:
    one = MigByLabel(paths)
    for text in ("{", '{"config": {"version": "v9"}, "selected": "a", "by_label": true}'):
        paths.config.write_text(text)
        one.follow("halves")
        assert one.decision.state == "failed", text
        assert one.decision.reason
        assert not paths.asked.exists()
    paths.config.unlink()
    one.follow("halves")
    assert "mig_by_label is not set" in one.decision.reason
    assert not one.follow("halves")
    assert one.follow("")
    assert one.decision[:2] == ("", "")


def test_an_answer_that_can_not_be_used_is_none(paths: Paths) -> None:
    one = MigByLabel(paths)
    one.follow("halves")
    for text in ("{", "[]", '{"asked": 1, "state": "success"}', "\x00"):
        paths.answer.write_text(text)
        one.follow("halves")
        assert one.decision.state == "pending", text


def test_a_folder_that_can_not_be_written_is_told(paths: Paths) -> None:
    paths.asked.parent.write_text("no folder")
    one = MigByLabel(paths)
    one.follow("halves")
    assert one.decision.state == "pending"
    assert "can't write" in one.decision.reason
