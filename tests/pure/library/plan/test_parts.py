# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which parts a run calls, by what one look has planned of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._checks.parts import (
    BY_NAME,
    MODULES,
    PARTS,
    called,
    chosen,
    is_open,
    with_later,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.plan.report import lines, refused
from ansible_collections.gpu.node.plugins.module_utils._generated.plan import SPEC
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import REPOSITORY

NAMES = [one.name for one in PARTS]
LISTS = ("steps", "reboot_reasons", "restart_required", "warnings", "blocked_by")
EMPTY: dict[str, Any] = {
    **{name: [] for name in LISTS},
    **{name: {} for name in ("error", "diff", "result")},
    "later": "",
    "reboot_required": False,
}
STEP = {"action": "write", "summary": "write a file", "needs": []}
# Each way in which something is left to do, to wait for or to refuse.
OPEN: dict[str, dict[str, Any]] = {
    "steps": {"steps": [STEP]},
    "error": {"error": {"msg": "mig: no", "cause": "", "hint": ""}},
    "later": {"later": "NVML answers"},
    "reboot": {"reboot_required": True, "reboot_reasons": ["another driver is loaded"]},
    "restart": {"restart_required": ["containerd.service"]},
    "reload": {"result": {"reload_required": ["docker.service"]}},
}
answers = st.lists(st.sampled_from(NAMES), unique=True).flatmap(
    lambda names: st.tuples(
        *(
            st.sampled_from([{}, {}, *OPEN.values()]).map(
                lambda more, name=name: {"name": name, **EMPTY, **more}
            )
            for name in NAMES
            if name in names
        )
    )
)


def part(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **EMPTY, **more}


def calls(parts: Iterable[dict[str, Any]]) -> list[str]:
    return called(with_later(parts))


def test_what_a_part_is_behind_comes_before_it() -> None:
    for number, one in enumerate(PARTS):
        assert set(one.behind) <= set(NAMES[:number])


def test_options_and_the_playbook_have_the_parts_of_this_list() -> None:
    options = SPEC["argument_spec"]
    assert options["parts"]["choices"] == NAMES
    assert set(options["components"]["choices"]) == set(MODULES)
    tasks = yaml.safe_load((REPOSITORY / "playbooks/tasks/parts.yml").read_text())
    in_order = [task for task in tasks if isinstance(task["when"], str)]
    for part, task in zip(PARTS, in_order, strict=True):
        made = task["ansible.builtin.include_role"]
        assert task["when"] == f"'{part.name}' in __gpu_nodes_calls"
        assert made["name"] == f"gpu.node.{part.module}"
        tags = list(part.tags) if part.tags[1:] else part.name
        assert task["tags"] == made["apply"]["tags"] == tags


@pytest.mark.parametrize(
    ("run", "skip", "names"),
    [
        (["all"], [], NAMES),
        (["tagged"], ["driver"], [one for one in NAMES if one != "driver"]),
        (["labels"], [], ["environment", "device_plugin"]),
        (["all"], ["labels"], [n for n in NAMES if n not in ("environment", "device_plugin")]),
        (["mig", "none"], [], ["environment", "mig"]),
        (["none"], [], []),
    ],
)
def test_tags_choose_parts_as_they_choose_tasks(
    run: list[str], skip: list[str], names: list[str]
) -> None:
    assert [one.name for one in PARTS if chosen(one.tags, run, skip)] == names


@pytest.mark.parametrize("more", OPEN.values(), ids=OPEN)
def test_what_is_open_is_calls(more: dict[str, Any]) -> None:
    name = "runtime" if "restart_required" in more else "mig"
    assert calls([part("host"), part(name, **more), part("dcgm")])[:1] == [name]
    assert calls([part("driver"), part("dcgm")]) == []


@pytest.mark.parametrize(
    ("name", "wait"), [("host", "restart"), ("host", "reboot"), ("settings", "reboot")]
)
def test_a_wait_that_no_run_ends_calls_nothing(name: str, wait: str) -> None:
    waiting = part(name, **OPEN[wait])
    assert calls([part("driver"), waiting, part("cdi")]) == []
    assert calls([{**waiting, "steps": [STEP]}]) == [name]


def test_packages_that_are_only_put_on_hold_are_no_matter_of_the_parts_behind() -> None:
    hold = {"steps": [{**STEP, "action": "hold"}]}
    rest = [part(name) for name in NAMES if name not in ("environment", "driver")]
    assert calls([part("driver", **hold), *rest]) == ["driver"]
    assert {one["later"] for one in with_later([part("driver", **hold), *rest])} == {""}
    for more in ({"steps": [STEP, *hold["steps"]]}, {**hold, "reboot_required": True}):
        found = calls([part("driver", **more), *rest])
        assert found == ["driver", "mig", "settings", "cdi", "device_plugin", "dcgm", "accept"]


@given(answers)
def test_exactly_what_is_open_or_behind_what_is_called_is_called(
    parts: tuple[dict[str, Any], ...],
) -> None:
    found = calls(parts)
    for one in parts:
        behind = [name for name in BY_NAME[one["name"]].behind if name in found]
        assert (one["name"] in found) == (is_open(one) or bool(behind))
    assert found == [one["name"] for one in parts if one["name"] in found]


@given(answers)
def test_more_to_do_never_calls_less(parts: tuple[dict[str, Any], ...]) -> None:
    before = set(calls(parts))
    for number, one in enumerate(parts):
        changed = [*parts[:number], {**one, "steps": [STEP]}, *parts[number + 1 :]]
        assert before | {one["name"]} <= set(calls(changed))


@given(answers)
def test_what_says_later_is_called_and_the_rest_of_the_plan_stays(
    parts: tuple[dict[str, Any], ...],
) -> None:
    told = with_later(parts)
    assert with_later(told) == told
    assert {one["name"] for one in told if one["later"]} <= set(called(told))
    assert [{**one, "later": ""} for one in told] == [{**one, "later": ""} for one in parts]
    first = next((one for one in told if is_open(one)), part("driver"))
    given = {one["name"]: one["later"] for one in parts}
    assert first["later"] == given.get(first["name"], "")  # nothing before it changes


def test_a_change_of_the_driver_leaves_what_does_not_depend_on_it() -> None:
    parts = [part(name) for name in NAMES]
    parts[NAMES.index("driver")]["steps"] = [STEP]
    assert calls(parts) == ["driver", "mig", "settings", "cdi", "device_plugin", "dcgm", "accept"]
    parts = [part(name, steps=[STEP] if name == "mig" else []) for name in NAMES]
    assert calls(parts) == ["mig", "settings", "cdi", "device_plugin", "accept"]
    parts = [part(name, steps=[STEP] if name == "device_plugin" else []) for name in NAMES]
    assert calls(parts) == ["device_plugin"]


def test_the_lines_say_what_waits_and_what_would_be_refused() -> None:
    busy = {"msg": "mig: GPU 0 is in use", "cause": "", "hint": "", "until": ""}
    alone = with_later([part("driver"), part("mig", error=busy)])
    assert refused(alone, check_mode=False) == ["mig: GPU 0 is in use"]
    assert lines(alone) == ["mig: would be refused as it is now: mig: GPU 0 is in use"]
    after = with_later([part("driver", steps=[STEP]), part("mig", error=busy)])
    assert refused(after, check_mode=True) == []  # the driver may take it away
    assert lines(after) == [
        "driver: would write a file",
        "mig: would be refused as it is now: mig: GPU 0 is in use",
        "mig: known once driver has changed",
    ]


def test_an_error_that_no_change_before_takes_away_ends_a_run() -> None:
    stays = {"msg": "settings: no", "cause": "", "hint": "", "until": "", "stays": True}
    parts = with_later([part("mig", steps=[STEP]), part("settings", error=stays)])
    assert refused(parts, check_mode=False) == ["settings: no"]


def test_a_run_begins_where_it_fetches_what_may_take_a_refusal_away() -> None:
    old = {"msg": "toolkit: no such version", "cause": "", "hint": "", "until": "the lists are"}
    parts = with_later([part("toolkit", error=old)])
    assert refused(parts, check_mode=True) == ["toolkit: no such version"]
    assert refused(parts, check_mode=False) == []


def test_the_lines_say_who_is_in_the_way() -> None:
    busy = part("driver", steps=[STEP], result={"refused": True}, blocked_by=["7 (python3)"])
    assert lines([busy])[1] == ("driver: would be refused, since GPUs are in use by 7 (python3)")
