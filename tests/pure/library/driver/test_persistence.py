# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Persistence mode is asked of the GPUs: a daemon that runs need not have turned it on."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.knowledge import (
    Absent,
    Known,
    Unknown,
)
from ansible_collections.gpu.node.plugins.module_utils._base.services import settings
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.family import load_family
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.persistence import (
    ACTION,
    DROP_IN,
    TEXT,
    Persistence,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.persistence import (
    QUERY,
    PersistenceModes,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.sources import Node
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._node.machine.recorded import Additions
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import PATH as QUARANTINE
from ansible_collections.gpu.node.plugins.module_utils._node.quarantine import Quarantine, dump

from tests.fakes.daemon.quarantined import ENTRY
from tests.fakes.library.fakes import FakeHost
from tests.fakes.packages.driver_nodes import (
    DESIRED,
    RUNNING,
    changed,
    converged,
    plan_of,
    with_options,
)

FIRST, SECOND = (f"GPU-{at}0000000-0000-0000-0000-000000000000" for at in "12")
OFF = Known({SECOND: f"GPU 1 ({SECOND})"})
SHOW = ("systemctl", "show", "nvidia-persistenced.service")
STARTED = "{ path=/usr/bin/nvidia-persistenced ; argv[]=/usr/bin/nvidia-persistenced --user nvpd }"
WITHOUT = STARTED.replace(" }", " --no-persistence-mode }")
ACTIVE = {"ActiveState": "active", "ExecStart": STARTED}


def steps(modes: Persistence, **changes: Any) -> list[str]:
    desired = with_options(DESIRED, **changes)
    node = converged(persistence=modes)
    return [one.summary for one in plan_of(node, desired).steps]


def test_a_gpu_whose_mode_is_off_is_named_though_the_daemon_runs() -> None:
    assert steps(Persistence(OFF)) == [f"turn persistence mode on of GPU 1 ({SECOND})"]
    found = plan_of(converged(persistence=Persistence(OFF)), DESIRED)
    assert (found.before["persistence"], found.after["persistence"]) == (False, True)


@pytest.mark.parametrize("off", [Known({}), Absent()], ids=["on", "not asked"])
def test_modes_that_are_on_and_those_of_other_rules_need_no_step(off: Any) -> None:
    found = plan_of(converged(persistence=Persistence(off)), DESIRED)
    assert (found.steps, found.warnings) == ((), ())


def test_modes_that_are_not_known_are_told_and_change_nothing() -> None:
    node = converged(persistence=Persistence(Unknown("nvidia-smi ended with status 9: no")))
    found = plan_of(node, DESIRED)
    assert found.steps == ()
    assert "is not known: nvidia-smi ended with status 9: no. Next step: " in found.warnings[0]


def test_a_unit_that_keeps_modes_off_gets_a_drop_in() -> None:
    (summary,) = steps(Persistence(OFF, lacks_drop_in=True))
    assert SECOND in summary
    assert f"whose unit has --no-persistence-mode: write {DROP_IN}" in summary


def test_a_daemon_that_is_to_be_started_is_asked_for_nothing_more() -> None:
    node = converged(service={**RUNNING, "ActiveState": "inactive"}, persistence=Persistence(OFF))
    assert [one.action for one in plan_of(node, DESIRED).steps] == ["persistence"]


def test_without_persistence_a_drop_in_of_ours_goes_and_nothing_else_changes() -> None:
    assert steps(Persistence(OFF), persistence=False) == []
    node = converged()
    ours = changed(node, record=dataclasses.replace(node.history.record, persistence_mode=True))
    desired = with_options(DESIRED, persistence=False)
    (step,) = plan_of(ours, desired).steps
    assert (step.action, step.summary) == (ACTION, f"remove {DROP_IN}")


def test_a_drop_in_of_ours_goes_where_rules_decide() -> None:
    node = converged(persistence=Persistence(by_rules=True))
    assert plan_of(node, DESIRED).steps == ()
    ours = changed(node, record=dataclasses.replace(node.history.record, persistence_mode=True))
    assert [one.summary for one in plan_of(ours, DESIRED).steps] == [f"remove {DROP_IN}"]


def modes(host: FakeHost, gpus: Any = None) -> PersistenceModes:
    added = Additions(host, RECORD, Record)
    return PersistenceModes(Node(host, load_family("debian"), None, added), gpus)  # type: ignore[arg-type]


def asked(first: str = "Enabled", second: str = "Disabled", started: str = STARTED) -> FakeHost:
    rows = f"{FIRST}, 0, {first}\n{SECOND}, 1, {second}\n"
    show = f"ActiveState=active\nExecStart={started}\n"
    files = {"/etc/passwd": "nvpd:x:104:108::/run:/bin/false\n"}
    return FakeHost(files, {QUERY: rows, SHOW: show, ("nvidia-smi", "-pm"): "", ("systemctl",): ""})


def off(host: FakeHost, gpus: Any = None) -> Any:
    return modes(host, gpus).observe(ACTIVE).off


def test_the_gpus_are_asked_where_the_daemon_runs() -> None:
    assert off(asked()) == OFF
    assert off(asked(second="Enabled")) == Known({})
    assert off(asked(second="[N/A]")) == Known({})
    host = asked()
    assert modes(host).observe({"ActiveState": "inactive"}) == Persistence()
    assert host.ran == []


def test_gpus_that_were_just_looked_at_are_not_asked_again() -> None:
    looked = [
        {"uuid": FIRST, "index": 0, "persistence_mode": None},
        {"uuid": SECOND, "index": 1, "persistence_mode": False},
    ]
    host = asked(first="Disabled")
    assert off(host, looked) == OFF
    assert host.ran == []


def test_a_driver_that_does_not_answer_is_not_taken_for_modes_that_are_on() -> None:
    for answer, words in (
        (Completed(9, "", "NVIDIA-SMI has failed"), "status 9: NVIDIA-SMI has failed"),
        (Completed(127, "", "nvidia-smi: not found"), "nvidia-smi: not found"),
    ):
        host = asked()
        host.commands[QUERY] = answer
        found = off(host)
        assert isinstance(found, Unknown)
        assert words in found.reason


@pytest.mark.parametrize("value", [True, False])
def test_rules_that_name_the_mode_decide_on_it(*, value: bool) -> None:
    host = asked()
    host.files[settings.CONFIG] = json.dumps({"rules": [{"match": "all", "persistence": value}]})
    assert modes(host).observe({**ACTIVE, "ExecStart": WITHOUT}) == Persistence(by_rules=True)
    assert QUERY not in host.ran
    host.files[settings.CONFIG] = json.dumps({"rules": [{"match": "all", "ecc": True}]})
    assert off(host) == OFF


def test_gpus_that_a_rule_has_set_or_that_are_set_aside_are_left_alone() -> None:
    host = asked(first="Disabled")
    gpus = {FIRST: {"before": {"persistence": True}, "locks": {}}}
    host.files[settings.RECORD] = json.dumps({"version": 1, "gpus": gpus})
    assert off(host) == OFF
    host.files[QUARANTINE] = dump(Quarantine({SECOND: ENTRY}))
    assert off(host) == Known({})


def test_a_torn_file_of_rules_leaves_it_open_who_decides() -> None:
    host = asked()
    host.files[settings.CONFIG] = "{"
    found = off(host)
    assert isinstance(found, Unknown)
    assert settings.CONFIG in found.reason


def test_only_the_gpus_that_are_off_are_turned_on() -> None:
    host = asked()
    modes(host).apply({"gpus": (SECOND,)})
    assert [ran for ran in host.ran if "-pm" in ran] == [("nvidia-smi", "-pm", "1", "-i", SECOND)]
    assert DROP_IN not in host.files


def test_a_daemon_that_is_started_without_the_mode_turns_it_on_after_each_start() -> None:
    host = asked(started=WITHOUT)
    one = modes(host)
    assert one.observe({**ACTIVE, "ExecStart": WITHOUT}).lacks_drop_in
    one.turn_on()
    assert host.files[DROP_IN] == TEXT
    assert ("systemctl", "daemon-reload") in host.ran
    assert Record.load(host.files[RECORD], RECORD).persistence_mode
    assert not one.observe({**ACTIVE, "ExecStart": WITHOUT}).lacks_drop_in
    one.apply({"remove": True})
    assert DROP_IN not in host.files
    assert RECORD not in host.files


@pytest.mark.parametrize(
    ("passwd", "status", "lost"),
    [
        ("root:x:0:0::/root:/bin/sh\nnvpd:x:104:108::/run:/bin/false\n", 2, ""),
        ("root:x:0:0::/root:/bin/sh\n", 0, ""),  # of a directory
        ("root:x:0:0::/root:/bin/sh\nxnvpd:x:104:108::/:/bin/false\n", 2, "nvpd"),
        ("", 127, ""),
    ],
)
def test_a_daemon_whose_user_is_gone_is_told_of(passwd: str, status: int, lost: str) -> None:
    host = asked(second="Enabled")
    host.files["/etc/passwd"] = passwd
    host.commands["getent",] = Completed(status, "", "")
    found = modes(host).observe(ACTIVE)
    assert found.lost_user == lost
    warnings = plan_of(converged(persistence=found), DESIRED).warnings
    assert [one for one in warnings if "the user nvpd, which does not exist any more" in one] == (
        list(warnings) if lost else []
    )
    assert len(warnings) == bool(lost)
