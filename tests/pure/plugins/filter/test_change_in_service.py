# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a run makes of the change that stands on a node, by the processes of its controller."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.filter import change_in_service as plugin
from ansible_collections.gpu.node.plugins.plugin_utils.controller import run

FOUND = plugin.FilterModule().filters()["change_in_service"]
NOBODY = 2**22 + 1  # more than Linux gives


def marked(**changes: Any) -> dict[str, Any]:
    return {**run.this_run("reboot")._asdict(), "digest": "abc", **changes}


def test_a_node_without_a_change_gets_the_marker_of_this_run() -> None:
    found = FOUND({}, "mig")
    told = json.loads(found.pop("text"))
    assert (told["change"], told["pid"], told["failed"]) == ("mig", os.getpid(), "")
    assert found.pop("holder") == run.this_run("mig").holder
    assert found == {"refused": "", "begun": False, "cause": "", "seen": "", "before": ""}


def test_a_process_of_this_controller_is_looked_at() -> None:
    init = {"pid": 1, "process": run.process(1)}
    assert FOUND(marked(**init), "mig")["refused"].count("goes on as process 1.") == 1
    assert FOUND(marked(pid=NOBODY, process="gone"), "mig")["begun"]
    assert FOUND(marked(process="of an earlier boot"), "mig")["begun"]
    assert FOUND(marked(), "mig")["seen"] == "abc"


def test_a_process_that_can_not_be_looked_at_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "process", lambda _pid: "")
    assert run.lives(os.getpid(), "boot 7")
    assert not run.lives(NOBODY, "boot 7")


def test_a_process_that_has_ended_and_was_not_waited_for_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = {"R": True, "Z": False}
    for state, lives in states.items():
        text = f"70 (a) b) {state} {' '.join(map(str, range(40)))}"
        monkeypatch.setattr(run.Path, "read_text", lambda _path, *_how, text=text: text)
        told = f"{text} 18"
        assert run.lives(os.getpid(), told) is lives


def test_seconds_may_be_given_as_text() -> None:
    away = marked(host="ctl-2")
    assert FOUND(away, "mig", after="60")["refused"]
    assert FOUND(away, "mig", after="0")["begun"]
    assert FOUND(away, "mig", True, "60")["begun"]
    assert "run gpu.node.reboot to its end" in FOUND(away, "", after="0")["refused"]
