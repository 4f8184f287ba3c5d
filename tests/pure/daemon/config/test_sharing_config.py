# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The lists of the configuration: names for hardware, and who shares what."""

from __future__ import annotations

import json
from typing import Any

from gpu_plugin.config.configuration import parse
from gpu_plugin.config.sharing import Naming, Rule, Share, Sharing
from gpu_plugin.config.strict_yaml import ConfigError

from tests.support.refusals import refused_otherwise

UUID = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
GPU = "nvidia.com/gpu"


def shared(*entries: dict[str, Any], **more: Any) -> Sharing:
    section = {"timeSlicing": {**more, "resources": list(entries)}}
    return parse(json.dumps({"sharing": section})).sharing


def test_names_of_hardware_are_read() -> None:
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


def test_shares_are_read() -> None:
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


NO_DEVICES: tuple[Any, ...] = (
    *(0, -1, 2.0, True, "not-all", "2", [], [-1], [2.0], [True], ["0:"], ["0:1:2"], ["GPU-1"]),
)


def test_devices_are_all_a_number_or_a_list_of_indices_and_uuids() -> None:
    for reference in (0, "0", "0:0", UUID, UUID.replace("GPU", "MIG"), f"MIG-{UUID}/1/0"):
        found = shared({"name": GPU, "replicas": 2, "devices": [reference]})
        assert found.shares[0].devices == (str(reference),)
    words = "expected all, a number of devices, or a list"
    entries = ({"name": GPU, "replicas": 2, "devices": one} for one in NO_DEVICES)
    assert refused_otherwise(shared, ((one, words) for one in entries), ConfigError) == []


def test_replicas_are_a_whole_number_within_bounds() -> None:
    words = ("replicas: ", " is not valid: expected a whole number")
    entries = ({"name": GPU, "replicas": one} for one in (0, -1, "2", 2.5, True, 4097))
    assert refused_otherwise(shared, ((one, words) for one in entries), ConfigError) == []


REFUSED = {
    "sharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replica: 2": (
        "line 5: unknown key sharing.timeSlicing.resources.replica",
        "did you mean sharing.timeSlicing.resources.replicas?",
    ),
    "sharing:\n  timeSlicing:\n  resources: []": (
        "line 3: unknown key sharing.resources",
        "did you mean sharing.timeSlicing.resources?",
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


def test_refusals_say_where_and_what() -> None:
    cases = ((text, ("refused: c.yaml: line ", *words)) for text, words in REFUSED.items())
    assert refused_otherwise(lambda text: parse(text, "c.yaml"), cases, ConfigError) == []


def test_imex_channels_are_none_or_the_first() -> None:
    assert parse("imex: {channelIDs: [0]}").containers.imex_channels == ("0",)
    assert parse("imex: {channelIDs: []}").containers.imex_channels == ()
