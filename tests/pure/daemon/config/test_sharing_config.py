# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The lists of the configuration: names for hardware, and who shares what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_plugin.config.configuration import parse
from gpu_plugin.config.sharing import Naming, Rule, Share, Sharing
from gpu_plugin.config.strict_yaml import ConfigError

UUID = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
GPU = "nvidia.com/gpu"


def shared(*entries: dict[str, Any], **more: Any) -> Sharing:
    section = {"timeSlicing": {**more, "resources": list(entries)}}
    return parse(json.dumps({"sharing": section})).sharing


def test_names_for_hardware() -> None:
    text = """
resources:
  gpus:
  - {pattern: "NVIDIA A100*", name: a100}
  - pattern: "*"
    name: nvidia.com/gpu
  mig: [{pattern: 1g.*, name: small}]
"""
    assert parse(text).naming == Naming(
        gpus=(Rule("NVIDIA A100*", "nvidia.com/a100"), Rule("*", GPU)),
        mig=(Rule("1g.*", "nvidia.com/small"),),
    )


def test_shares() -> None:
    assert shared({"name": "gpu", "replicas": 10}) == Sharing((Share(GPU, 10, GPU),))
    assert shared({"name": GPU, "replicas": 1, "devices": "all"}).shares == (Share(GPU, 1, GPU),)
    found = shared(
        {"name": GPU, "replicas": 4, "rename": "slow", "devices": [0, "1", "0:1", UUID]},
        {"name": GPU, "replicas": 2, "devices": 3},
        renameByDefault=True,
        failRequestsGreaterThanOne=True,
    )
    assert found == Sharing(
        (
            Share(GPU, 4, "nvidia.com/slow", None, ("0", "1", "0:1", UUID)),
            Share(GPU, 2, f"{GPU}.shared", 3),
        ),
        one_each=True,
    )


def test_an_empty_section_shares_nothing() -> None:
    for text in ("sharing: {}", "sharing: {timeSlicing: {}, mps:}", "sharing:"):
        assert parse(text).sharing == Sharing()


@pytest.mark.parametrize(
    "devices",
    [0, -1, 2.0, True, "not-all", "2", [], [-1], [2.0], [True], ["0:"], ["0:1:2"], ["GPU-1"]],
)
def test_what_is_no_choice_of_devices(devices: object) -> None:
    with pytest.raises(ConfigError, match="expected all, a number of devices, or a list"):
        shared({"name": GPU, "replicas": 2, "devices": devices})


@pytest.mark.parametrize(
    "reference",
    [0, "0", "0:0", UUID, UUID.replace("GPU", "MIG"), f"MIG-{UUID}/1/0"],
)
def test_what_is_one(reference: object) -> None:
    found = shared({"name": GPU, "replicas": 2, "devices": [reference]})
    assert found.shares[0].devices == (str(reference),)


@pytest.mark.parametrize("replicas", [0, -1, "2", 2.5, True, 4097])
def test_what_is_no_number_of_replicas(replicas: object) -> None:
    with pytest.raises(ConfigError, match=r"replicas: .* is not valid: expected a whole number"):
        shared({"name": GPU, "replicas": replicas})


REFUSED = {
    "sharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replica: 2": (
        "line 5: unknown key sharing.timeSlicing.resources.replica",
        "did you mean sharing.timeSlicing.resources.replicas?",
    ),
    "sharing:\n  timeSlicing:\n  resources: []": (
        "line 3: unknown key sharing.resources",
        "did you mean sharing.mps.resources?",
    ),
    "timeSlicing: {}": ("did you mean sharing.timeSlicing?",),
    "sharing:\n  timeSlicing:\n    resources:\n    - name: gpu": (
        "line 4: sharing.timeSlicing.resources[0].replicas is missing",
    ),
    "sharing: {timeSlicing: {resources: [{replicas: 2}]}}": ("resources[0].name is missing",),
    "sharing: {timeSlicing: {resources: []}}": ("timeSlicing.resources is missing or empty",),
    "sharing: {timeSlicing: {renameByDefault: true}}": ("resources is missing or empty",),
    "sharing: {timeSlicing: {resources: {}}}": ("resources is not a list", "devices, name"),
    "sharing: {timeSlicing: {resources: [gpu]}}": ("resources[0] is not a mapping",),
    "sharing: {timeSlicing: {resources: [null]}}": ("resources[0] is not a mapping",),
    "sharing: {timeSlicing: {resources: [{name: GPU_1, replicas: 2}]}}": (
        "resources[0].name: 'GPU_1' is not valid",
        "expected a name of nvidia.com",
    ),
    "sharing: {timeSlicing: {resources: [{name: amd.com/gpu, replicas: 2}]}}": (
        "'amd.com/gpu' is not valid",
    ),
    f"sharing: {{timeSlicing: {{resources: [{{name: {'a' * 60}, replicas: 2}}]}}}}": (
        "has more than 63 characters",
    ),
    "sharing: {timeSlicing: {failRequestsGreaterThanOne: 1, resources: []}}": (
        "failRequestsGreaterThanOne: 1 is not valid",
    ),
    "sharing:\n  timeSlicing:\n    resources:\n"
    "    - {name: gpu, replicas: 2}\n    - {name: nvidia.com/gpu, replicas: 3}": (
        "line 5: sharing.timeSlicing.resources[1]: each device of nvidia.com/gpu is shared twice",
    ),
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [0, 1]}, "
    "{name: gpu, replicas: 2, devices: [1, 2]}]}}": ("resources[1]: 1 of nvidia.com/gpu",),
    "sharing: {mps: {resources: [{name: gpu, replicas: none}]}}": ("'none' is not valid",),
    "resources:\n  gpus:\n  - {pattern: x}": ("line 3: resources.gpus[0].name is missing",),
    "resources: {gpus: [{pattern: 1, name: x}]}": ("resources.gpus[0].pattern: 1 is not valid",),
    "resources: {gpu: []}": ("did you mean resources.gpus?",),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_say_where_and_what(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "c.yaml")
    for words in REFUSED[text]:
        assert words in str(caught.value)
    assert str(caught.value).startswith("c.yaml: line ")


@pytest.mark.parametrize(
    ("name", "text", "field", "expected"),
    [
        ("DEVICE_LIST_STRATEGY", "cdi-cri,envvar", "device_list_strategies", ("cdi-cri", "envvar")),
        ("GDS_ENABLED", "true", "gds", True),
        ("MOFED_ENABLED", "1", "mofed", True),
        ("GDRCOPY_ENABLED", "t", "gdrcopy", True),
        ("CDI_ANNOTATION_PREFIX", "x.y/", "cdi_annotation_prefix", "x.y/"),
        ("SHARED_DEVICES_ALLOCATION_POLICY", "packed", "allocation_policy", "packed"),
        ("IMEX_CHANNEL_IDS", "0", "imex_channels", ("0",)),
        ("IMEX_REQUIRED", "true", "imex_required", True),
    ],
)
def test_the_environments_names_are_nvidias(
    name: str, text: str, field: str, expected: object
) -> None:
    assert getattr(parse("", env={name: text}), field) == expected
    assert getattr(parse(""), field) != expected


def test_imex_channels_are_none_or_the_first() -> None:
    assert parse("imex: {channelIDs: [0]}").imex_channels == ("0",)
    assert parse("imex: {channelIDs: []}").imex_channels == ()


DOCUMENTED = {
    "time-slicing with four replicas": """
version: v1
flags:
  migStrategy: "none"
  failOnInitError: true
  nvidiaDriverRoot: "/"
  plugin:
    passDeviceSpecs: false
    deviceListStrategy: "envvar"
    deviceIDStrategy: "uuid"
sharing:
  timeSlicing:
    renameByDefault: false
    failRequestsGreaterThanOne: false
    resources:
    - name: nvidia.com/gpu
      replicas: 4
""",
    "mig devices shared by profile": """
version: v1
flags: {migStrategy: mixed}
sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
    - {name: nvidia.com/mig-1g.5gb, replicas: 2}
""",
    "a minimal one as JSON": '{"version": "v1", "sharing": {"timeSlicing": {"resources": '
    '[{"name": "nvidia.com/gpu", "replicas": 10}]}}}',
    "with what gpu-feature-discovery reads": """
version: v1
flags:
  gfd: {oneshot: false, noTimestamp: false, sleepInterval: 60s}
sharing:
  timeSlicing:
    resources: [{name: nvidia.com/gpu, replicas: 2}]
""",
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_what_users_of_nvidias_plugin_have_works_unchanged(name: str) -> None:
    (first, *_others) = parse(DOCUMENTED[name]).sharing.shares
    assert first.name == first.offered_as == GPU
    assert first.replicas > 1
