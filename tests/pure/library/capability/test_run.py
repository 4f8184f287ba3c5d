# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The shape of every module: observe, plan, apply, look again."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan, Step
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


class Left(Exception):
    """The module has ended."""

    def __init__(self, failed: bool, answer: dict[str, Any]) -> None:
        super().__init__(str(answer))
        self.failed, self.answer = failed, answer


class Module:
    """An AnsibleModule that tells how it was left."""

    _name = "counter"

    def __init__(self, check_mode: bool = False) -> None:
        self.check_mode, self._diff = check_mode, True
        self.params: dict[str, Any] = {}
        self.no_log_values: set[str] = set()
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def exit_json(self, **answer: Any) -> None:
        raise Left(False, answer)

    def fail_json(self, **answer: Any) -> None:
        raise Left(True, answer)


class Counter:
    """Counts up to a goal: one step at a time where it is staged, else all at once."""

    name = "counter"

    def __init__(self, goal: int, *, staged: bool = False, stuck_at: int = -1) -> None:
        self.value, self.goal, self.staged, self.stuck_at = 0, goal, staged, stuck_at
        self.broken_at = -1

    def observe(self) -> int:
        return self.value

    def plan(self, state: int) -> Plan:
        last = min(self.goal, state + 1) if self.staged else self.goal
        steps = tuple(Step("add", f"add number {at + 1}") for at in range(state, last))
        return Plan(steps, state, self.goal, warnings=("mind the gap",), more=last < self.goal)

    def apply(self, step: Step) -> None:
        if self.value == self.broken_at:
            raise NodeError("adding failed", cause="no paper", hint="buy some", pages=3)
        if self.value != self.stuck_at:
            self.value += 1

    def result(self, state: int, plan: Plan) -> dict[str, Any]:
        return {"value": state}


def run(counter: Counter, *, check_mode: bool = False) -> tuple[Left, Module]:
    module = Module(check_mode)
    with pytest.raises(Left) as left:
        run_capability(module, lambda: counter)
    return left.value, module


@pytest.mark.parametrize("staged", [False, True])
def test_all_steps_are_done_and_told(staged: bool) -> None:
    left, module = run(Counter(3, staged=staged))
    assert not left.failed
    assert left.answer["changed"] is True
    assert left.answer["value"] == 3
    assert [one["summary"] for one in left.answer["steps"]] == [
        "add number 1",
        "add number 2",
        "add number 3",
    ]
    steps = "".join(f"- add number {one}\n" for one in (1, 2, 3))
    assert left.answer["diff"] == {"before": "0\n", "after": "3\n", "prepared": steps}
    assert module.warnings == ["mind the gap"]


def test_check_mode_tells_the_same_and_does_nothing() -> None:
    counter = Counter(3)
    checked, _module = run(counter, check_mode=True)
    assert counter.value == 0
    applied, _module = run(counter)
    for key in ("changed", "steps", "diff"):
        assert checked.answer[key] == applied.answer[key]


class Written(Counter):
    """Shows texts as its state."""

    def plan(self, state: int) -> Plan:
        texts = {"unit": "[Unit]\nAfter=x\n", "login": {"password": "a\nb"}, "at": (1, None)}
        return Plan((Step("add", "write --token=abc"),), None, texts, more=True)


def test_texts_in_what_changes_are_shown_as_they_are() -> None:
    left, _module = run(Written(1), check_mode=True)
    lines = left.answer["diff"]["after"].splitlines()
    assert lines == [
        *("at:", "  - 1", "  - null", "login:", "  password: ***"),
        *("unit: |", "  [Unit]", "  After=x"),
    ]
    assert left.answer["diff"]["before"] == ""


def test_the_plan_is_in_what_diff_shows_on_any_display() -> None:
    left, _module = run(Written(1), check_mode=True)
    assert left.answer["diff"]["prepared"] == "- write --token=***\n"


def test_second_run_changes_nothing() -> None:
    counter = Counter(2)
    run(counter)
    left, _module = run(counter)
    assert left.answer["changed"] is False
    assert left.answer["steps"] == []
    assert left.answer["diff"] == {}


def test_failure_tells_what_was_done_and_what_is_next() -> None:
    counter = Counter(3)
    counter.broken_at = 1
    left, _module = run(counter)
    assert left.failed
    assert left.answer["msg"] == "counter: adding failed: no paper. Next step: buy some"
    assert left.answer["changed"] is True
    assert [one["summary"] for one in left.answer["steps"]] == ["add number 1"]
    assert left.answer["pages"] == 3
    counter.broken_at = -1
    again, _module = run(counter)
    assert again.answer["value"] == 3


def test_step_without_effect_is_not_reported_as_success() -> None:
    left, _module = run(Counter(2, stuck_at=1))
    assert left.failed
    assert "did not reach the wanted state" in left.answer["msg"]
    assert left.answer["cause"] == "after all steps this is still to do: add number 2"
    assert [one["summary"] for one in left.answer["steps"]] == ["add number 1", "add number 2"]


def test_bad_input_fails_before_anything_is_observed() -> None:
    def make() -> Counter:
        raise InputError.of("goal", -1, "0 or more")

    module = Module()
    with pytest.raises(Left) as left:
        run_capability(module, make)
    assert left.value.failed
    assert left.value.answer["msg"] == "counter: goal: -1 is not valid: expected 0 or more"
    assert left.value.answer["changed"] is False


@pytest.mark.parametrize(
    ("module", "key", "named"),
    [
        ("gpu.node.mig", "selected", "mig: selected (mig_selected): "),
        ("gpu.node.mig", "config[0].devices", "mig: config[0].devices (mig_config): "),
        ("cdi", "compare", "cdi: compare: "),  # the role has no variable for it
        ("gpu.node.cdi", "path", "cdi: path (cdi_path): "),
        (
            "gpu.node.container_runtime",
            "name",
            "container_runtime: name (container_runtime_name): ",
        ),
        (
            "gpu.node.device_plugin",
            "configs: few",
            "device_plugin: configs: few (device_plugin_configs): ",
        ),
    ],
)
def test_an_error_names_the_roles_variable_and_the_module_in_one_way(
    module: str, key: str, named: str
) -> None:
    def make() -> Counter:
        raise InputError.of(key, "hafl", "something else")

    fake = Module()
    fake._name = module
    with pytest.raises(Left) as left:
        run_capability(fake, make)
    assert left.value.answer["msg"] == f"{named}'hafl' is not valid: expected something else"


def test_without_root_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Locked(Counter):
        def observe(self) -> int:
            raise PermissionError(13, "Permission denied", "/proc/1/fd")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(PermissionError):
        run_capability(Module(), lambda: Locked(1))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    left, _module = run(Locked(1))
    assert left.failed
    assert left.answer["msg"] == (
        "counter: /proc/1/fd: this needs root. Next step: set become: true, for a user with sudo"
    )


def test_step_without_effect_is_not_repeated_for_ever() -> None:
    """Where more comes after it, as after a module stream that dnf keeps elsewhere."""
    counter = Counter(3, staged=True, stuck_at=1)
    applied: list[str] = []
    apply = counter.apply

    def few(step: Step) -> None:
        applied.append(step.summary)
        if len(applied) > 9:
            raise AssertionError("for ever")
        apply(step)

    counter.apply = few  # type: ignore[method-assign]
    left, _module = run(counter)
    assert left.failed
    assert applied == ["add number 1", "add number 2"]
    assert "had no effect: add number 2" in left.answer["msg"]
    assert left.answer["changed"] is True


def test_steps_that_undo_each_other_end_too() -> None:
    class Swinging(Counter):
        def plan(self, state: int) -> Plan:
            return Plan((Step("swing", "to the left" if state % 2 else "to the right"),), more=True)

    left, _module = run(Swinging(1))
    assert left.failed
    assert [one["summary"] for one in left.answer["steps"]] == ["to the right", "to the left"]


class Touched(Counter):
    """Makes a file and leaves its mode to the umask, as programs do."""

    def __init__(self, path: Path) -> None:
        super().__init__(1)
        self.path = path

    def apply(self, step: Step) -> None:
        self.path.touch()
        self.value += 1


@pytest.mark.parametrize("login", [0o022, 0o027, 0o077])
def test_a_file_has_the_same_mode_under_each_umask(login: int, tmp_path: Path) -> None:
    umask = os.umask(login)
    try:
        run(Touched(tmp_path / "library.so"))
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "library.so").stat().st_mode) == 0o644
