# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The node's label names a MIG layout: it is passed on to what makes it, and answered."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin.labels.mig import Paths
from gpu_plugin.tools import status

from tests.fakes.daemon.label_node import BEGIN
from tests.fakes.daemon.mig_by_label import LAYOUTS, declare, files
from tests.support.waiting import LIMIT, eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.labelling import Labeller, Start

LABEL, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
REASON = "gpu.node/mig.config-reason"
FAST = "flags: {migStrategy: mixed, gfd: {sleepInterval: 1s, noTimestamp: true}}\n"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return files(tmp_path)


def flags(paths: Paths) -> list[str]:
    named = {"config": paths.config, "asked": paths.asked, "answer": paths.answer}
    named["chosen"] = paths.chosen
    return ["--mig-by-label=true", *(f"--mig-{name}={path}" for name, path in named.items())]


def begin(one: Labeller, paths: Paths) -> subprocess.Popen[bytes]:
    """Begin what gpu-mig-label.service does."""
    words: list[object] = ["--config", paths.config, "--asked", paths.asked]
    words += ["--answer", paths.answer, "--chosen", paths.chosen]
    words += ["--status", paths.answer.with_name("status.json")]
    return one.node.python("-c", BEGIN, "mig-label", *words, BEFORE=f"{paths.chosen}.before")


def service(one: Labeller, paths: Paths) -> None:
    """Do it once."""
    assert begin(one, paths).wait(LIMIT) == 0, one.node.logged()


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
    process = begin(one, paths)
    eventually(lambda: "in use by process" in one.api.own("annotations").get(REASON, ""))
    assert one.api.own()[STATE] == "pending"
    one.node.sim.let_go(holder)
    one.wait(mig_config_state="success", **{"mig-7g_80gb_count": "1"})
    assert process.wait(LIMIT) == 0
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


@pytest.mark.long
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
