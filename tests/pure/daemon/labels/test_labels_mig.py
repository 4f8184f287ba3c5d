# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The layout that a label names is asked for in a file, and answered in another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_plugin._shared._mig.label import Request
from gpu_plugin.labels.mig import RETRY_AFTER, MigByLabel, Paths
from gpu_plugin.tools.files import StateFile

from tests.fakes.daemon.mig_by_label import LAYOUTS, declare, files

NOBODY = 2**22 + 1  # no process has this number


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return files(tmp_path)


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

    assert not again(RETRY_AFTER - 1)
    assert again(1)
    answer(paths, "halves", "pending", "in use", NOBODY)
    assert again(RETRY_AFTER)  # its process was killed
    answer(paths, "halves", "pending", "in use", os.getpid())
    assert not again(RETRY_AFTER)
    answer(paths, "halves", "failed", "it does not fit", NOBODY)
    assert not again(RETRY_AFTER)
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
