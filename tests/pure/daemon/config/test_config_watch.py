# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A configuration that changes on disk."""

from __future__ import annotations

import os
from pathlib import Path

from gpu_plugin.config.sources import SETTLE, ConfigWatch


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def noticed(watch: ConfigWatch, clock: Clock) -> list[bool]:
    """What it says at once, when the file has settled, and after that."""
    answers = [watch.changed()]
    for _time in range(2):
        clock.now += SETTLE
        answers.append(watch.changed())
    return answers


def test_a_change_is_told_once_and_when_it_is_complete(tmp_path: Path) -> None:
    file, clock = tmp_path / "config.yaml", Clock()
    file.write_text("version: v1")
    watch = ConfigWatch(file, clock)
    assert noticed(watch, clock) == [False, False, False]
    file.write_text("version: v1\n")
    assert not watch.changed()
    clock.now += SETTLE
    file.write_text("version: v1\n\n")  # it is still being written
    assert noticed(watch, clock) == [False, True, False]


def test_a_file_that_is_replaced_appears_or_goes(tmp_path: Path) -> None:
    file, clock = tmp_path / "config.yaml", Clock()
    watch = ConfigWatch(file, clock)
    file.write_text("a")
    assert noticed(watch, clock) == [False, True, False]
    other = tmp_path / "other"
    other.write_text("b")
    other.replace(file)
    assert noticed(watch, clock) == [False, True, False]
    file.unlink()
    assert noticed(watch, clock) == [False, False, False]


def test_a_link_that_points_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text("a")
    file, clock = tmp_path / "config.yaml", Clock()
    file.symlink_to("one")
    watch = ConfigWatch(file, clock)
    os.unlink(file)
    file.symlink_to("two")
    assert noticed(watch, clock) == [False, True, False]
