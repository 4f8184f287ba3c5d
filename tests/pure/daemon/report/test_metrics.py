# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Metrics and health over HTTP: each metric follows its fact."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_plugin.config.configuration import Config, parse
from gpu_plugin.config.schema import address
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.model.inventory import Devices
from gpu_plugin.model.mps.paths import Names
from gpu_plugin.mps.state import READY, Report, load
from gpu_plugin.observer import BOUNDS, MOST_SERIES, Observer
from gpu_plugin.report.pages import Families
from gpu_plugin.report.probes import STUCK, health, readiness

from tests.fakes.daemon.gpu_builders import device
from tests.support.refusals import refused_otherwise

GPU = "nvidia.com/gpu"
POWER = {"setting": "power_limit", "now": "700 W", "declared": "560 W"}
UUID = "GPU-11111111-2222-3333-4444-555555555555"


NO_ADDRESSES = ("", "9402", ":9402", "localhost:9402", "127.0.0.1", "127.0.0.1:0", "on")
NO_ADDRESSES += ("127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:\u0668", "::1:80", "[127.0.0.1]:80")


def test_addresses_of_metrics() -> None:
    for text, wanted in {
        "127.0.0.1:9402": ("127.0.0.1", 9402),
        "0.0.0.0:1": ("0.0.0.0", 1),
        "[::1]:65535": ("::1", 65535),
        "off": None,
    }.items():
        assert address("here", text) == wanted
        assert parse(f"gpuNode: {{metricsAddress: '{text}'}}").metrics == wanted

    def read(text: str) -> Config:
        return parse("", flags={"gpuNode.metricsAddress": text})

    words = ("flag --metrics-address", "expected ADDRESS:PORT")
    assert refused_otherwise(read, ((one, words) for one in NO_ADDRESSES), ConfigError) == []


def test_series_are_bounded() -> None:
    observer = Observer()
    for number in range(MOST_SERIES + 20):
        observer.count("xids", UUID, str(number), "fatal")
    (xids,) = (one for metric in observer.metrics for one in metric.collect() if one.samples)
    assert len(xids.samples) == MOST_SERIES + 1
    assert {one.labels["gpu"]: one.value for one in xids.samples} == {UUID: 1, "other": 20}


def test_devices_are_bounded_and_a_shared_one_is_there_once() -> None:
    shared = Devices(replace(device(0), replica=number) for number in range(900))
    assert list(shared.reasons) == [("GPU-0", "0")]
    rows = [{"uuid": f"GPU-{at}", "index": str(at), "reason": ""} for at in range(MOST_SERIES + 20)]
    plain = dict.fromkeys(("driver_version", "config_problem"), None)
    empty: dict[str, Any] = {"resources": {}, "chores": {}, "vanished": ()}
    found = {**plain, **empty, "version": "1", "config_sha256": "", "state": "", "devices": rows}
    found |= {
        "config_fallback": False,
        "gpu_uuids": [],
        "gpu_indices": [],
        "slow": [],
        "settings": [],
        "verdicts": {},
        "quarantine": {"gpus": {}, "node": None},
        "gated": False,
    }
    (health,) = (
        one for one in Families(lambda: found, lambda: ()).collect() if "device_h" in one.name
    )
    assert len(health.samples) == MOST_SERIES


def of_two_gpus() -> dict[str, Any]:
    """Return a state, the second GPU of which wants a reboot and has drifted."""
    state: dict[str, Any] = {
        "resources": {},
        "chores": {},
        "vanished": (),
        "devices": [],
        "slow": (),
        "settings": [
            {**POWER, "uuid": "a", "index": "0", "drifted": False},
            {**POWER, "uuid": "b", "index": "1", "drifted": True},
        ],
    }
    state |= dict.fromkeys(("version", "config_sha256", "state"), "")
    state |= dict.fromkeys(("driver_version", "config_problem", "config_fallback"))
    state |= {
        "gpu_uuids": ["a", "b"],
        "gpu_indices": ["0", "1"],
        "verdicts": {"b": {"verdict": "reboot"}},
        "quarantine": {"gpus": {}, "node": None},
        "gated": False,
    }
    return state


def test_gpus_that_a_gate_holds_are_not_accepted_and_in_no_quarantine() -> None:
    entry = {"reason": "", "ticket": "", "since": ""}
    quarantine = {"gpus": {"b": {**entry, "by": "gate"}}, "node": None}
    for gated, accepted in ((True, {"a": 1, "b": 0}), (False, {})):
        state = {**of_two_gpus(), "quarantine": quarantine, "gated": gated}
        values = {
            family.name: {sample.labels["uuid"]: sample.value for sample in family.samples}
            for family in Families(lambda state=state: state, lambda: ()).collect()
            if family.name.endswith(("_accepted", "_quarantined"))
        }
        assert values["gpu_plugin_accepted"] == accepted
        assert values["gpu_plugin_quarantined"] == {"a": 0, "b": 0}


def test_what_is_to_be_done_about_each_gpu_is_a_number() -> None:
    (found,) = (
        one for one in Families(of_two_gpus, lambda: ()).collect() if "recovery" in one.name
    )
    assert {one.labels["index"]: one.value for one in found.samples} == {"0": 0, "1": 6}


def test_each_declared_setting_has_whether_it_has_drifted() -> None:
    (found,) = (one for one in Families(of_two_gpus, lambda: ()).collect() if "setting" in one.name)
    assert [(one.labels, one.value) for one in found.samples] == [
        ({"uuid": "a", "index": "0", "setting": "power_limit"}, 0),
        ({"uuid": "b", "index": "1", "setting": "power_limit"}, 1),
    ]


def test_a_duration_on_a_bound_belongs_below_it() -> None:
    for bound in BOUNDS:
        observer = Observer()
        observer.took(bound, GPU, "Allocate")
        found = {
            float(sample.labels["le"]): sample.value
            for metric in observer.metrics
            for family in metric.collect()
            for sample in family.samples
            if sample.name == "gpu_plugin_call_duration_seconds_bucket"
        }
        assert found == {one: one >= bound for one in (*BOUNDS, float("inf"))}


def test_a_loop_that_is_stuck_is_told() -> None:
    state = {"problem": None, "resources": {GPU: {"registered": True}}}
    for judge in (health, readiness):
        assert judge(state, STUCK) == ""
        assert "has not gone round for 31 seconds" in judge(state, STUCK + 1)


def test_what_a_killed_manager_left_is_read_as_crashed() -> None:
    with tempfile.TemporaryDirectory(prefix="m-") as folder:  # with a short path
        report = Report(Names(UUID, folder), pid=2**22 + 1)
        report.state(READY)
        report.clients({7: (8,)})
        (Path(folder) / "a-b.json").write_text("[]")
        (found,) = load(Path(folder))
    assert (found["state"], found["clients"], found["servers"]) == ("crashed", 0, [])


def test_what_happens_before_the_metrics_are_asked_for_is_in_them() -> None:
    observer = Observer()
    observer.count("xids", UUID, "79", "fatal")
    observer.took(0.1, GPU, "Allocate")
    before = observer.metrics
    observer.count("xids", UUID, "79", "fatal")
    assert observer.metrics == before
    samples = [one for metric in before for family in metric.collect() for one in family.samples]
    found = {one.name: one.value for one in samples if not one.name.endswith("_bucket")}
    assert found["gpu_plugin_xids_total"] == 2
    assert found["gpu_plugin_call_duration_seconds_count"] == 1
