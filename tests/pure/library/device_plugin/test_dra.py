# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The plan for the DRA driver beside the device plugin."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.dra.allocation import Owners, owners_in
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import (
    LABELS_UNIT,
    UNIT,
    plan,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    CONFIG,
    UNITS,
    DesiredPlugin,
    PluginState,
    Service,
    parse_desired,
)
from ansible_collections.gpu.node.plugins.module_utils._node.users.busy import Busy

from tests.fakes.library.agent_nodes import (
    FILES,
    FRESH,
    NAMED,
    ON,
    PREFIX,
    WANTED,
    actions,
    changed,
    seen,
)

DRA_UNIT = "gpu-dra.service"
OPTIONS = {
    "devices": [],
    "enforcement": "mps",
    "split_count": 10,
    "memory_scaling": 1.0,
    "oversubscribe": "refuse",
    "hami_core_library": "",
    "hami_core_sha256": "",
    "publish": "all",
    "kubeconfig": "",
    "node_name": "",
}
DIGEST = "0123456789abcdef" * 4
WITH_DRA = dataclasses.replace(
    WANTED,
    configs={CONFIG: "version: v1\n# dra\n"},
    units={**NAMED, DRA_UNIT: "[Unit]\n# dra\n"},
    owners=Owners("dra"),
)
RUNS = {
    "files": {**FILES, **WITH_DRA.configs, f"{UNITS}/{DRA_UNIT}": "[Unit]\n# dra\n"},
    "dra": Service(ON, {"GPU_NODE_RELEASE": "new"}),
}
ON_DRA = seen(**RUNS)


def desired(allocation: str = "dra", config: Any = None, **options: Any) -> DesiredPlugin:
    params = {
        "state": "started",
        "labels": {"output": "off", "condition": False, "mig_by_label": False},
        "config": config,
        "configs": {"notebooks": {"version": "v1"}},
        "allocation": allocation,
        "dra": {**OPTIONS, **options},
        "digest": "d",
        "units": {},
        **dict.fromkeys(("python", "install_python", "require_kubelet")),
    }
    params["labels"].update(dict.fromkeys(("kubeconfig", "node_name", "namespace", "extra"), ""))
    params["labels"].update(default_config="", events=True)
    return parse_desired(params)


def steps(state: PluginState, of: DesiredPlugin = WITH_DRA) -> list[tuple[str, str]]:
    """What is done, each with the unit or the file that it is about."""
    found = plan(state, of, PREFIX).steps
    about = ((one.params.get("unit"), one.params.get("path", "")) for one in found)
    return [
        (step.action, unit or path.rpartition("/")[2])
        for step, (unit, path) in zip(found, about, strict=True)
    ]


def test_the_driver_starts_once_the_device_plugin_has_let_its_gpus_go() -> None:
    assert steps(seen(moves=True)) == [
        ("config", "config.yaml"),
        ("restart", UNIT),
        ("file", DRA_UNIT),
        ("enable", DRA_UNIT),
        ("restart", DRA_UNIT),
    ]
    fresh = steps(FRESH)
    assert fresh.index(("restart", UNIT)) < fresh.index(("restart", DRA_UNIT))


def test_the_driver_goes_before_the_device_plugin_gets_its_gpus() -> None:
    back = steps(changed(ON_DRA, moves=True), WANTED)
    assert back == [("remove_service", DRA_UNIT), ("config", "config.yaml"), ("restart", UNIT)]
    other = dataclasses.replace(WITH_DRA, configs={CONFIG: "other"})
    assert steps(changed(ON_DRA, moves=True), other) == [
        ("pause", DRA_UNIT),
        ("config", "config.yaml"),
        ("restart", UNIT),
        ("restart", DRA_UNIT),
    ]


def test_what_runs_is_left_alone() -> None:
    assert steps(ON_DRA) == []
    assert steps(seen(), dataclasses.replace(WANTED, units=WITH_DRA.units)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"dra": Service(ON, {"GPU_NODE_RELEASE": "old"})}, [("restart", DRA_UNIT)]),
        ({"dra": Service({**ON, "ActiveState": "failed"})}, [("restart", DRA_UNIT)]),
        (
            {"dra": Service({**ON, "UnitFileState": "disabled"}, {"GPU_NODE_RELEASE": "new"})},
            [("enable", DRA_UNIT)],
        ),
        (
            {"files": {**RUNS["files"], f"{UNITS}/{DRA_UNIT}": "older"}},
            [("file", DRA_UNIT), ("restart", DRA_UNIT)],
        ),
    ],
)
def test_each_drift_of_the_driver_is_mended(change: Any, expected: Any) -> None:
    assert steps(changed(ON_DRA, **change)) == expected


def test_nothing_changes_while_pods_have_what_would_be_anothers() -> None:
    pod = "pod team/train (container main) with nvidia.com/gpu GPU-0"
    with pytest.raises(Busy) as refused:
        plan(seen(moves=True, held=(pod,)), WITH_DRA, PREFIX)
    assert pod in str(refused.value)
    assert refused.value.details["key"] == "allocation"
    gone = dataclasses.replace(WANTED, state="absent")
    with pytest.raises(Busy, match="can't be removed while pods have its devices"):
        plan(changed(ON_DRA, held=(pod,)), gone, PREFIX)


def test_the_driver_stops_and_goes_with_the_device_plugin() -> None:
    stopped = dataclasses.replace(WITH_DRA, state="stopped")
    assert steps(ON_DRA, stopped) == [("stop", DRA_UNIT), ("stop", UNIT)]
    gone = steps(ON_DRA, dataclasses.replace(WITH_DRA, state="absent"))
    assert gone[:2] == [("remove_service", DRA_UNIT), ("remove_service", UNIT)]
    assert LABELS_UNIT not in str(gone)


def test_each_configuration_says_who_allocates_as_the_driver_reads_it() -> None:
    found = desired("both", devices=["0", "GPU-AB"], split_count=4)
    assert len(found.configs) == 2
    for text in found.configs.values():
        assert '"allocation": "both"' in text
        assert '"splitCount": 4' in text
        assert '"hamiCore"' not in text
        assert owners_in(text) == found.owners == Owners("both", frozenset(["0", "gpu-ab"]))
    assert "gpuNode" not in "".join(desired("device_plugin").configs.values())
    assert '"library": "/lib/libvgpu.so"' in "".join(
        desired(enforcement="hami-core", hami_core_library="/lib/libvgpu.so").configs.values()
    )
    named = {"enforcement": "hami-core", "hami_core_library": "/lib/libvgpu.so"}
    for digest in (DIGEST, DIGEST.upper()):
        texts = desired(**named, hami_core_sha256=digest).configs.values()
        assert f'"sha256": "{DIGEST}"' in "".join(texts)
    assert "sha256" not in "".join(desired(**named).configs.values())
    assert '"publish": "gpu"' in "".join(desired(publish="gpu").configs.values())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"devices": ["0"]}, "dra.devices: ['0'] is not valid.* as allocation is dra and not both"),
        ({"allocation": "both"}, "dra.devices: [] is not valid.*index, UUID or PCI bus id"),
        ({"enforcement": "hami-core"}, "dra.hami_core_library: .*libvgpu.so"),
        ({"hami_core_sha256": DIGEST}, "dra.hami_core_library: '' is not valid.*has the SHA-256"),
        (
            {"hami_core_library": "/l.so", "hami_core_sha256": "sha256:1"},
            "dra.hami_core_sha256: 'sha256:1' is not valid.*64 hexadecimal digits",
        ),
        ({"memory_scaling": 3.0}, "dra.memory_scaling: 3.0 is not valid.*oversubscribe"),
        ({"config": {"gpuNode": {"allocation": "dra"}}}, "config.gpuNode.allocation: 'dra'"),
        ({"config": {"gpuNode": {"dra": {}}}}, "config.gpuNode.dra: .*option dra"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, Any], words: str) -> None:
    with pytest.raises(NodeError, match=words.replace("[", r"\[")) as refused:
        desired(**given)
    assert refused.value.details["key"] in str(refused.value)
    assert isinstance(refused.value, InputError) or "memory_scaling" in given


def test_scaling_is_taken_where_best_effort_is_accepted_or_the_library_swaps() -> None:
    assert desired(memory_scaling=3.0, oversubscribe="best-effort").owners.dra
    taken = desired(memory_scaling=3.0, enforcement="hami-core", hami_core_library="/l.so")
    assert '"memoryScaling": 3.0' in "".join(taken.configs.values())


def test_the_driver_is_told_its_access_and_its_name() -> None:
    assert desired().dra_settings == ""
    told = desired(kubeconfig="/etc/dra.conf", node_name="worker-1")
    assert told.dra_settings.endswith('KUBECONFIG="/etc/dra.conf"\nNODE_NAME="worker-1"\n')
    path = "/etc/gpu-node/dra.env"
    with_settings = dataclasses.replace(WITH_DRA, dra_settings=told.dra_settings)
    assert steps(ON_DRA, with_settings) == [("file", "dra.env"), ("restart", DRA_UNIT)]
    there = {**RUNS["files"], path: told.dra_settings}
    assert steps(seen(**{**RUNS, "files": there}), with_settings) == []
    assert steps(seen(**{**RUNS, "files": there})) == [("remove", "dra.env"), ("restart", DRA_UNIT)]
    back = steps(seen(**{**RUNS, "files": there, "moves": True}), WANTED)
    assert back[:2] == [("remove_service", DRA_UNIT), ("remove", "dra.env")]


@pytest.mark.parametrize("text", [None, "", "# x\n{", "[]", '{"gpuNode": 3}', '{"gpuNode": null}'])
def test_a_file_that_says_nothing_gives_dra_nothing(text: str | None) -> None:
    assert owners_in(text) == Owners("device_plugin")


def test_actions_name_files(  # what check mode and diff show
) -> None:
    found = plan(seen(moves=True), WITH_DRA, PREFIX)
    assert found.after["files"][f"{UNITS}/{DRA_UNIT}"] == "[Unit]\n# dra\n"
    assert f"file {DRA_UNIT}" in actions(found)
