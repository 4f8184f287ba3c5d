# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What GPUs report of their condition, and what of it outlives the daemon's process. No driver needed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.config.configuration import overrides
from gpu_plugin.driver.health import Health
from gpu_plugin.driver.memory import HealthFile
from gpu_plugin.model.inventory import Inventory, judged
from gpu_plugin.tools.chores import Chore
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.daemon.gpu_builders import condition, inventory, notes, view

QUIET = 10.0
FINE = inventory(view(0), view(1, "1g.10gb", "1g.10gb"))
LOST = inventory(view(0, problem="lost", lost=True), view(1, "1g.10gb", "1g.10gb"))


def told(**reading: Any) -> Inventory:
    """The GPUs, the first of which tells this of its condition."""
    return inventory(
        replace(view(0), condition=condition(**reading)), view(1, "1g.10gb", "1g.10gb")
    )


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A daemon's health, whose process may end and be followed by another one."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.load = Clock(), (7, 8)
        self.folder = folder
        self.boot("first")
        self.start()
        assert self.fit()

    def boot(self, name: str) -> None:
        path = self.folder / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")

    def start(self) -> None:
        self.health = Health(QUIET, self.clock)
        self.file = HealthFile(self.folder / "health.json", self.folder)
        self.file.read(self.health, self.load, (0, *self.load))
        self.keep = Chore("health_file", "the GPUs' health can't be kept", self.file.write)

    def problems(self, now: Inventory = FINE) -> list[str]:
        found = judged(now, self.health.judge(now, (0, *self.load)))
        self.keep.run(self.health, self.load)
        return [
            str(problem or "")
            for one in found.gpus
            for problem in (one.problem, *one.mig_problems.values())
        ]

    def fit(self, now: Inventory = FINE, after: float = 0) -> bool:
        self.clock.now += after
        return not any(self.problems(now))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


# --- readings ---


def test_what_a_gpu_does_not_tell_is_no_fault(node: Node) -> None:
    assert node.fit(told())
    node.health.xid("GPU-0", 79)
    assert not node.fit(told(), after=1000)


def test_errors_that_were_confined_pass_and_others_want_a_reset(node: Node) -> None:
    confined = {"failed": False, "pending": False}
    assert node.fit(told(uncorrected=1, **confined))
    node.health.overrides = overrides("", "94")
    assert node.problems(told(uncorrected=2, **confined))[0] == (
        "2 memory errors since its last reset. Way back: it passes by itself after 10 seconds"
        " without another fault"
    )
    assert not node.fit(told(uncorrected=2, **confined), after=QUIET - 1)
    assert node.fit(told(uncorrected=2, **confined), after=1)
    assert node.fit(told(uncorrected=2, **confined), after=1000)
    assert not node.fit(told(uncorrected=3, **confined))


def test_errors_of_a_gpu_that_retires_pages_want_a_reset(node: Node) -> None:
    assert not node.fit(told(uncorrected=1))
    assert not node.fit(told(uncorrected=1), after=1e6)
    assert not node.fit(told(uncorrected=0))  # a reset takes them back, and then it stays quiet
    assert node.fit(told(uncorrected=0), after=QUIET)


def test_errors_that_an_xid_told_of_are_not_counted_against_the_whole_gpu(node: Node) -> None:
    node.health.overrides = overrides("", "94")
    node.health.xid("GPU-1", 94, 7, 0)
    errors = replace(FINE.gpus[1], condition=condition(failed=False, uncorrected=1))
    assert list(node.health.judge(inventory(view(0), errors), (0, 7, 8))) == [("GPU-1", 7, 0)]


def test_errors_of_a_gpu_in_mig_mode_which_tells_nothing_of_rows_are_confined_too(
    node: Node,
) -> None:
    errors = replace(FINE.gpus[1], condition=condition(uncorrected=1))
    assert node.fit(inventory(view(0), errors))


def test_a_driver_that_asks_for_nothing_excuses_no_xid(node: Node) -> None:
    node.health.xid("GPU-0", 79)
    assert not node.fit(told(recovery=0), after=1e6)


def test_a_row_that_waits_for_a_reset_is_a_note_and_no_fault(node: Node) -> None:
    waits = told(failed=False, pending=True)
    assert node.fit(waits)
    (note,) = notes(waits, "mixed")
    assert note.startswith("GPU 0 (GPU-0) replaces a memory row at its next reset")
    assert notes(FINE, "mixed") == []


@pytest.mark.parametrize(
    ("disable", "reading", "fit"),
    [
        ("all", {"uncorrected": 1}, True),
        ("all", {"recovery": 1}, True),
        ("all", {"failed": True}, True),
        ("48", {"uncorrected": 1}, True),
        ("", {"uncorrected": 1, "failed": False}, True),
        ("64", {"failed": True}, True),
        ("48,94", {"recovery": 1}, False),
    ],
)
def test_nvidias_variables_concern_readings_too(
    node: Node, disable: str, reading: dict[str, Any], fit: bool
) -> None:
    node.health.overrides = overrides(disable, "")
    assert node.fit(told(**reading)) is fit


# --- from one process to the next ---


@pytest.mark.parametrize("number", [48, 79, 119])
def test_a_fault_outlives_the_process(node: Node, number: int) -> None:
    node.health.xid("GPU-0", number)
    before = node.problems()
    node.start()
    assert node.problems() == before
    assert not node.fit(after=1e6)


def test_a_fault_of_an_instance_outlives_the_process(node: Node) -> None:
    node.health.xid("GPU-1", 199, 7, 0)
    before = node.problems()
    node.start()
    assert node.problems() == before


def test_a_quiet_time_goes_on_in_the_next_process(node: Node) -> None:
    node.health.overrides = overrides("", "94")
    node.health.xid("GPU-0", 94)
    assert not node.fit(after=QUIET - 1)
    node.start()
    assert not node.fit()
    assert node.fit(after=1)


def test_a_load_of_the_driver_in_between_is_a_reset(node: Node) -> None:
    node.health.xid("GPU-0", 48)
    node.problems()
    node.load = (9, 8)
    node.start()
    assert not node.fit()
    assert node.fit(after=QUIET)


def test_a_reboot_in_between_clears_everything(node: Node) -> None:
    node.health.xid("GPU-0", 48)
    node.problems()
    node.boot("second")
    node.start()
    assert node.fit()


@pytest.mark.parametrize(("number", "cured"), [(48, True), (95, True), (119, False)])
def test_cleared_error_counters_cure_what_the_errors_caused_alone(
    node: Node, number: int, cured: bool
) -> None:
    """An operator may clear them with nvidia-smi, which is no reset."""
    node.problems(told(uncorrected=2))
    node.health.clear("GPU-0")
    node.health.xid("GPU-0", number)
    (problem, *_others) = node.problems(told(uncorrected=2))
    assert ("nothing shows a reset here" in problem) is not cured
    node.start()
    assert not node.fit(told(uncorrected=0))
    assert node.fit(told(uncorrected=0), after=QUIET) is cured


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"uncorrected": 4}, {"uncorrected": 0}),
        ({"recovery": 1}, {"recovery": 0}),
    ],
)
def test_a_reset_in_between_shows_in_what_the_gpu_tells(
    node: Node, before: dict[str, Any], after: dict[str, Any]
) -> None:
    node.problems(told(**before))
    node.health.xid("GPU-0", 95)
    node.problems(told(**before))
    node.start()
    assert not node.fit(told(**before), after=1e6)
    assert not node.fit(told(**after))
    assert node.fit(told(**after), after=QUIET)


def test_a_lost_gpu_that_is_back_was_reset_in_between(node: Node) -> None:
    node.problems(LOST)
    node.start()
    assert not node.fit()
    assert node.fit(after=QUIET)


def test_errors_that_were_judged_are_not_judged_again(node: Node) -> None:
    node.health.overrides = overrides("", "94")
    old = told(uncorrected=2, failed=False)
    node.problems(old)
    assert node.fit(old, after=QUIET)
    node.start()
    assert node.fit(old)


TORN = {
    "empty": "",
    "torn": '{"version": 1, "boot": "first", "load": [7, 8], "health": {"fau',
    "not a mapping": "[]",
    "of another version": '{"version": 2}',
    "without a boot": '{"version": 1}',
    "with strange faults": '{"version": 1, "boot": "first", "load": [], "health": {"faults": [1]}}',
    "with endless numbers": '{"version": 1, "boot": "first", "load": [7, 8], "health": '
    '{"faults": [], "away": [], "asked": [], "errors": {"GPU-0": Infinity}}}',
    "deep": "[" * 100000,
}


@pytest.mark.parametrize("name", TORN)
def test_a_file_that_can_not_be_used_is_left_aside_with_a_word(
    node: Node, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (node.folder / "health.json").write_text(TORN[name])
    node.start()
    assert "what was known about the GPUs' health is lost" in capsys.readouterr().err
    node.health.xid("GPU-0", 48)
    assert not node.fit()
    node.start()
    assert not node.fit()


def test_a_file_of_other_bytes_is_left_aside_too(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    (node.folder / "health.json").write_bytes(b"\xff\xfe\0")
    node.start()
    assert "is lost" in capsys.readouterr().err
    assert node.fit()


def test_a_file_that_can_not_be_written_is_said_once(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    (node.folder / "health.json").unlink()
    (node.folder / "health.json").mkdir()
    node.health.xid("GPU-0", 48)
    for _time in range(3):
        node.fit(after=QUIET)
    assert capsys.readouterr().err.count("can't be kept") == 1


def test_nothing_new_is_not_written_again(node: Node) -> None:
    node.problems()
    written = (node.folder / "health.json").stat().st_ino
    node.fit(after=5)
    assert (node.folder / "health.json").stat().st_ino == written


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "faults",
                        "away",
                        "errors",
                        "asked",
                        "often",
                        "signs",
                        "energy",
                        "place",
                        "action",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=10,
    )
)
def test_no_memory_breaks_the_health(memory: Any) -> None:
    health = Health(QUIET, Clock())
    try:
        health.recall(memory, None)
    except ValueError:
        nothing = {"faults": [], "away": [], "errors": {}, "asked": {}, "often": [], "signs": {}}
        assert health.memory() == nothing
    json.dumps(health.memory())


def test_what_an_earlier_version_kept_of_faults_is_understood(node: Node) -> None:
    fault = {"place": ["GPU-0", None, None], "reason": "XID 48 (x)", "action": "fatal"}
    fault |= {"strikes": 1, "quiet_since": None, "over_since": None, "since": 5, "xid": 48}
    old = {"faults": [fault], "away": [], "errors": {}, "asked": ["GPU-0"], "signs": {}}
    node.health.recall(old, (0, *node.load))
    assert "Verdict: reset." in node.problems(told(recovery=1))[0]
    assert not node.fit(told(recovery=0))
    assert node.fit(told(recovery=0), after=QUIET)


def test_the_xid_of_a_fault_is_known_to_the_next_process_also_from_earlier_versions(
    node: Node,
) -> None:
    node.health.xid("GPU-0", 79)
    node.health.xid("GPU-1", 48, reason="3 memory errors since its last reset")
    memory = json.loads(json.dumps(node.health.memory()))
    fields = [(), ("reported",), ("reported", "xid")]  # which earlier versions did not keep
    for absent in fields:
        health = Health(QUIET, node.clock)
        for fault in memory["faults"]:
            for name in absent:
                fault.pop(name, None)
        health.recall(memory, 1)
        xids = {place[0]: problem.xid for place, problem in health.faults().items()}
        assert xids == {"GPU-0": 79, "GPU-1": 0}, absent


def test_how_often_there_was_an_xid_is_known_to_the_next_process(node: Node) -> None:
    for _each in range(3):
        node.health.xid("GPU-0", 94)
        assert node.fit(after=QUIET)
        node.start()
    node.health.xid("GPU-0", 94)
    assert not node.fit(after=1e6)
