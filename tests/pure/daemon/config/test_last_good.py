# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which configuration is in force: the one on disk, the one before, or the last good one of an earlier process."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_plugin.config import reload
from gpu_plugin.config.configuration import Config
from gpu_plugin.config.reload import InForce, LastGood
from gpu_plugin.config.sources import SETTLE, Source
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.observer import Observer

SINGLE, MIXED = "flags: {migStrategy: single}", "flags: {migStrategy: mixed}"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class AtOnce:
    """A worker without a thread."""

    def __init__(self, _name: str) -> None:
        pass

    def start(self, work: Callable[[], object]) -> bool:
        work()
        return True


class Place:
    """A configuration's file, a folder for the last good one, and a node that allows what is asked for."""

    def __init__(self, folder: Path) -> None:
        self.file, self.state = folder / "config.yaml", folder / "state"
        self.clock = Clock()
        self.refusal = ""
        self.known = True
        self.asked: list[str] = []

    def begin(self, text: str, env: dict[str, str] | None = None) -> InForce:
        self.file.write_text(text)
        source = Source(argparse.Namespace(config=str(self.file)), env or {})
        last_good = LastGood(source, self.state)
        return InForce(source, last_good, Path("/none"), Observer(), self.clock)

    def check(self, config: Config) -> bool:
        self.asked.append(config.mig_strategy)
        if self.refusal == config.mig_strategy:
            raise ConfigError("the node does not allow it")
        return self.known

    def change(self, one: InForce, text: str) -> bool:
        """Write the file, and let it settle."""
        self.file.write_text(text)
        one.reload(self.check, asked=False)
        self.clock.now += SETTLE
        return one.reload(self.check, asked=False)

    def kept(self) -> str:
        """What is kept."""
        path = self.state / reload.NAME
        return path.read_text() if path.exists() else ""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(reload, "Worker", AtOnce)
    return Place(tmp_path)


def test_it_is_tried_again_with_pauses_and_said_once(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    one = place.begin(SINGLE)
    place.refusal = "mixed"
    assert not place.change(one, MIXED)
    assert one.config.mig_strategy == "single"
    began, tries = place.clock.now, []
    for _second in range(100):
        place.clock.now += 1
        before = len(place.asked)
        assert not one.reload(place.check, asked=False)
        tries += [place.clock.now - began] * (len(place.asked) - before)
    assert tries[:5] == [1, 3, 7, 15, 31]
    assert max(b - a for a, b in itertools.pairwise(tries)) == 30
    assert capsys.readouterr().err.count("configuration refused, the one before stays") == 1
    place.refusal = ""
    place.clock.now += 30
    assert one.reload(place.check, asked=False)
    assert (one.config.mig_strategy, one.problem) == ("mixed", "")
    count = len(place.asked)
    place.clock.now += 1000
    assert not one.reload(place.check, asked=False)
    assert len(place.asked) == count  # what is in force is not tried again


def test_a_file_that_could_not_be_read_is_read_again(place: Place) -> None:
    one = place.begin(SINGLE)
    place.file.unlink()
    place.file.mkdir()
    assert not one.reload(place.check, asked=True)
    assert "Is a directory" in one.problem
    place.file.rmdir()
    place.file.write_text(SINGLE)
    place.clock.now += 1
    one.reload(place.check, asked=False)
    assert one.problem == ""


def test_only_what_the_node_allows_is_kept(place: Place) -> None:
    one = place.begin(SINGLE)
    place.known = False
    one.judge(place.check)
    assert not place.kept()  # the driver is not there, so nobody knows
    place.known, place.refusal = True, "single"
    one.judge(place.check)
    assert not place.kept()
    assert one.config.mig_strategy == "single"  # there is no better one
    place.refusal = ""
    place.clock.now += 60
    one.judge(place.check)
    assert "single" in place.kept()
    place.refusal = "mixed"
    assert not place.change(one, MIXED)
    one.judge(place.check)
    assert "mixed" not in place.kept()


def test_what_is_good_again_is_not_written_again(place: Place) -> None:
    one = place.begin(SINGLE)
    one.judge(place.check)
    assert place.kept()
    (path,) = place.state.iterdir()
    before = path.stat()
    assert before.st_mode & 0o777 == 0o600
    place.begin(SINGLE).judge(place.check)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_start_that_fails_in_a_way_nobody_foresaw_falls_back_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.begin(SINGLE).judge(place.check)
    assert place.kept()

    def fail(_self: Source) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(Source, "load", fail)
    one = place.begin(MIXED)
    assert (one.config.mig_strategy, one.fallback) == ("single", True)
    assert one.problem == "RecursionError: too deep"


def test_a_last_good_configuration_with_another_text_than_was_kept_is_lost(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.begin(SINGLE).judge(place.check)
    path = place.state / reload.NAME
    path.write_text(place.kept().replace("single", "mixed"))
    with pytest.raises(ConfigError):
        place.begin("flags: {unknown: 1}")
    assert (
        f'the last good configuration is lost cause="{path} is damaged"' in capsys.readouterr().err
    )


def test_a_bad_flag_is_no_matter_of_the_file(place: Place) -> None:
    place.begin(SINGLE).judge(place.check)
    assert place.kept()
    with pytest.raises(ConfigError, match="environment variable MIG_STRATEGY: 'x' is not valid"):
        place.begin(SINGLE, {"MIG_STRATEGY": "x"})


def test_with_another_driver_root_the_file_stays_in_force(place: Place) -> None:
    """The library that is loaded would not be the one of the configuration."""
    place.begin("flags: {nvidiaDriverRoot: /run/nvidia/driver, migStrategy: single}").judge(
        place.check
    )
    assert place.kept()
    one = place.begin(MIXED)
    place.refusal = "mixed"
    one.judge(place.check)
    assert (one.config.mig_strategy, one.fallback) == ("mixed", False)
