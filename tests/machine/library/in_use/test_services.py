# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Services that hold GPUs open stop for a change of the driver and run again, whatever becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import Process
from ansible_collections.gpu.node.plugins.module_utils._base.services.dcgm import RECORD as DCGM
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._mig.capability import MigCapability
from ansible_collections.gpu.node.plugins.module_utils._node.machine.facts import BOOT_ID
from ansible_collections.gpu.node.plugins.module_utils._node.users.machine.services import (
    Services,
)
from ansible_collections.gpu.node.plugins.module_utils._node.users.services import RECORD
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.exporter import UNIT
from ansible_collections.gpu.node.plugins.module_utils._software.dcgm.state import Record

from tests.fakes.packages.debian import VERSION, Debian, capability, converge, converged

NVSM, EXPORTER, ENGINE = "nvsm.service", "dcgm-exporter.service", "nvidia-dcgm.service"
LISTED = [NVSM, ENGINE]
OLD = {"version": "535", "stop_services": LISTED}


class Serving(Debian):
    """A node with services that have a GPU open while they run; systemctl tells of them as systemd 252 does."""

    def __init__(self) -> None:
        super().__init__()
        self.files[BOOT_ID] = "boot-1\n"
        self.runs = {NVSM: True, EXPORTER: True, ENGINE: True, "off.service": False}
        self.needs = {ENGINE: EXPORTER}
        self.broken: set[str] = set()
        self.order: list[tuple[str, str]] = []
        self.seen: list[bool] = []
        show = self.commands["systemctl", "show"]

        def shown(words: tuple[str, ...]) -> Completed:
            unit = words[2]
            if unit in self.runs:
                state = "active" if self.runs[unit] else "inactive"
                needed = self.needs.get(unit, "")
                text = f"Id={unit}\nLoadState=loaded\nActiveState={state}\nRequiredBy={needed}\n"
                return Completed(0, text + "BoundBy=\nConsistsOf=\n", "")
            if unit.startswith("nvidia-"):
                return show(words)  # type: ignore[operator,no-any-return]
            return Completed(0, f"Id={unit}\nLoadState=not-found\nActiveState=inactive\n", "")

        self.commands["systemctl", "show"] = shown
        self.commands["systemctl", "stop"] = self.stopped
        self.commands["systemctl", "start"] = self.started

    def stopped(self, words: tuple[str, ...]) -> Completed:
        return self.turned(words, False)

    def started(self, words: tuple[str, ...]) -> Completed:
        return self.turned(words, True)

    def turned(self, words: tuple[str, ...], on: bool) -> Completed:
        verb, unit = words[1:]
        if unit not in self.runs:
            return Completed(0, "", "")
        self.order.append((verb, unit))
        if unit in self.broken:
            return Completed(1, "", f"Job for {unit} failed.\nSee systemctl status")
        if not on:
            self.seen.append(unit in self.files.get(RECORD, ""))
        self.runs[unit] = on
        self.open()
        return Completed(0, "", "")

    def open(self) -> None:
        """Have a process of each service that runs, with a GPU open."""
        for number, (unit, on) in enumerate(self.runs.items(), 801):
            self.remove(f"/proc/{number}")
            if on:
                self.files[f"/proc/{number}/comm"] = unit.partition(".")[0] + "\n"
                self.files[f"/proc/{number}/cgroup"] = f"0::/system.slice/{unit}\n"
                self.links[f"/proc/{number}/fd/5"] = "/dev/nvidia0"


@pytest.fixture
def node() -> Any:
    done = converged(Serving)
    done.open()
    done.ran.clear()
    return done


def test_services_stop_before_the_change_and_run_after_it(node: Serving) -> None:
    with pytest.raises(NodeError, match="was not touched") as found:
        converge(node, version="535")
    assert len(found.value.details["blocked_by"]) == 3
    assert (
        "systemctl stop nvsm.service dcgm-exporter.service nvidia-dcgm.service" in found.value.hint
    )

    converge(node, reload="when_idle", **OLD)
    assert node.packages["libcuda1"][0].startswith("535")
    # What needs the engine would stop with it, so it is stopped and started too.
    stops = [("stop", NVSM), ("stop", EXPORTER), ("stop", ENGINE)]
    assert node.order == [*stops, ("start", ENGINE), ("start", EXPORTER), ("start", NVSM)]
    assert node.seen == [True, True, True]  # each was written down before
    assert RECORD not in node.files
    node.order.clear()
    assert converge(node, **OLD).steps == ()
    assert node.order == []


def test_what_did_not_run_is_not_started(node: Serving) -> None:
    node.runs[NVSM] = False
    node.open()
    converge(node, reload="when_idle", version="535", stop_services=[*LISTED, "off.service"])
    assert {unit for _verb, unit in node.order} == {ENGINE, EXPORTER}
    assert node.runs["off.service"] is False


def test_services_start_where_the_change_fails(node: Serving) -> None:
    """As the module's process ends; here it does not, so that is done by hand."""
    apt = node.commands["apt-get",]

    def failing(words: tuple[str, ...]) -> Completed:
        simulates = any(one in words for one in ("-s", "--simulate", "update"))
        return apt(words) if simulates else Completed(100, "", "E: no space")  # type: ignore

    node.commands["apt-get",] = failing
    one = capability(node, **OLD)
    stop, install, *_others = one.plan(one.observe()).steps
    one.apply(stop)
    with pytest.raises(NodeError, match="no space"):
        one.apply(install)
    assert not any(node.runs.values())
    one._gate.services.end()
    assert all(node.runs[unit] for unit in (NVSM, EXPORTER, ENGINE))
    assert RECORD not in node.files
    count = len(node.order)
    one._gate.services.end()
    assert len(node.order) == count


@pytest.mark.parametrize("wanted", [{}, {"version": "535"}])
def test_next_run_starts_what_a_killed_one_has_stopped(
    node: Serving, wanted: dict[str, Any]
) -> None:
    one = capability(node, **OLD)
    stop, *_others = one.plan(one.observe()).steps
    one.apply(stop)  # and then the run was killed
    checked = capability(node, check_mode=True, **wanted)
    last = checked.plan(checked.observe()).steps[-1]
    assert last.summary == f"start {ENGINE}, {EXPORTER}, {NVSM} again"
    left = converge(node, **wanted)
    assert left.steps == ()
    assert all(node.runs[unit] for unit in (NVSM, EXPORTER, ENGINE))
    assert RECORD not in node.files


def test_nothing_is_started_after_a_boot(node: Serving) -> None:
    one = capability(node, **OLD)
    stop, *_others = one.plan(one.observe()).steps
    one.apply(stop)
    node.files[BOOT_ID] = "boot-2\n"
    assert converge(node).steps == ()
    assert not node.runs[NVSM]
    converge(node, state="absent")
    assert RECORD not in node.files


def test_service_that_does_not_start_again_is_told(node: Serving) -> None:
    one = capability(node, reload="when_idle", **OLD)
    steps = one.plan(one.observe()).steps
    for step in steps[:-1]:
        one.apply(step)
    node.broken.add(NVSM)
    one.apply(steps[-1])
    left = one.plan(one.observe())
    assert any(
        "nvsm.service was stopped and does not start again: Job for" in w for w in left.warnings
    )
    assert left.steps == ()
    assert node.runs[ENGINE]


def test_service_that_does_not_stop_ends_the_change_before_it_begins(
    node: Serving,
) -> None:
    node.broken.add(ENGINE)
    with pytest.raises(NodeError, match="systemctl stop nvidia-dcgm") as found:
        converge(node, **OLD)
    assert "leave it out of stop_services" in found.value.hint
    assert node.packages["libcuda1"][0] == VERSION


def test_who_comes_while_services_stop_is_not_taken_from(node: Serving) -> None:
    def stop(words: tuple[str, ...]) -> Completed:
        node.files["/proc/99/comm"] = "python3\n"
        node.links["/proc/99/fd/3"] = "/dev/nvidia0"
        return node.stopped(words)

    node.commands["systemctl", "stop"] = stop
    with pytest.raises(NodeError, match=r"was not touched: in use by process 99 \(python3\)"):
        converge(node, **OLD)
    assert node.packages["libcuda1"][0] == VERSION


def test_service_that_is_not_there_is_refused_before_the_first_change(
    node: Serving,
) -> None:
    for check_mode in (True, False):
        one = capability(node, check_mode=check_mode, version="535", stop_services=["nvms", NVSM])
        with pytest.raises(InputError, match=r"stop_services: 'nvms.service' is not valid"):
            one.plan(one.observe())
    assert node.order == []
    assert converge(node, stop_services=["nvms"]).steps == ()  # nothing is to stop for


def test_service_that_takes_the_kubelet_with_it_is_refused(node: Serving) -> None:
    node.needs[NVSM] = "kubelet.service"
    with pytest.raises(InputError, match=r"'nvsm.service'.*kubelet.service does not stop with"):
        capability(node, **OLD).observe()


def test_exporter_of_ours_that_needs_its_engine_stops_with_it(node: Serving) -> None:
    node.needs[ENGINE] = UNIT
    node.runs[UNIT] = True
    node.open()
    node.files[DCGM] = Record(managed=frozenset({ENGINE, UNIT})).dump()
    converge(node, version="535", stop_services=[NVSM, EXPORTER, ENGINE])
    assert ("stop", UNIT) in node.order
    assert all(node.runs[unit] for unit in (NVSM, EXPORTER, ENGINE, UNIT))


def test_services_that_need_each_other_end_no_search(node: Serving) -> None:
    node.needs |= {EXPORTER: ENGINE}
    assert Services(node, [ENGINE]).users()[0].unit == NVSM  # type: ignore[arg-type]


def test_session_ends_with_its_display_manager(node: Serving) -> None:
    node.runs = {"gdm.service": True}
    node.files["/proc/900/comm"] = "gnome-shell\n"
    node.files["/proc/900/cgroup"] = "0::/user.slice/user-1000.slice/session-2.scope\n"
    node.links["/proc/900/fd/5"] = "/dev/nvidia0"
    services = Services(node, ["gdm"])  # type: ignore[arg-type]
    assert services.users() == tuple(
        one
        for one in Services(node, []).users()
        if one.unit and one.unit != "gdm.service"  # type: ignore[arg-type]
    )


def test_services_that_make_way_are_no_users_of_mig(node: Serving) -> None:
    params = {"config": None, "selected": "all-disabled", "boot": False, "reset": "never"}
    params |= {"on_busy": "fail", "on_allocated": "ignore", "wait_timeout": 0}
    params |= {"lock_timeout": 0, "by_label": False, "state": "present"}
    one = MigCapability(node, {**params, "stop_services": [NVSM]}, check_mode=False)  # type: ignore[arg-type]
    found = list(one._users([Process(801, "nvsm", "GPU-1"), Process(802, "x", "GPU-1")]))
    assert list(map(str, found)) == ["process 802 (x, dcgm-exporter.service)"]
