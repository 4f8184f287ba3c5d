# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who gives which GPUs to containers, and how DRA shares its own: read strictly."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from gpu_plugin.config.allocation import Dra, owner, unknown
from gpu_plugin.config.configuration import parse
from gpu_plugin.config.strict_yaml import ConfigError

from tests.fakes.daemon.gpu_builders import gpu
from tests.support.refusals import refused_otherwise

UUID = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
SHARING = {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 2, "devices": ["0"]}]}}
DIGEST = "0123456789abcdef" * 4


def written(allocation: str | None = None, sharing: Any = None, **dra: Any) -> str:
    node: dict[str, Any] = {"dra": dra}
    if allocation:
        node["allocation"] = allocation
    return json.dumps({"gpuNode": node, **({"sharing": sharing} if sharing else {})})


def test_the_device_plugin_has_all_gpus_by_default() -> None:
    assert parse("").dra == parse("gpuNode: {dra: {}}").dra == Dra()
    assert asdict(Dra()) == {
        "allocation": "device_plugin",
        "devices": (),
        "enforcement": "mps",
        "split_count": 10,
        "memory_scaling": 1.0,
        "best_effort": False,
        "library": "",
        "publish": "all",
        "sha256": "",
    }


def test_every_key_is_read() -> None:
    text = """
gpuNode:
  allocation: both
  dra:
    devices: [1, GPU-4CF8DB2D-06c0-7d70-1a51-e59b25b2c16c, '00000000:3B:00.0', '0000:3b:00.0', '01']
    enforcement: hami-core
    splitCount: 4
    memoryScaling: 3
    oversubscribe: best-effort
    hamiCore: {library: /usr/local/vgpu/libvgpu.so, sha256: DIGEST}
    publish: share
"""
    library = "/usr/local/vgpu/libvgpu.so"
    devices = ("1", UUID.lower(), "0000:3b:00.0")
    expected = Dra("both", devices, "hami-core", 4, 3.0, True, library, "share", DIGEST)
    assert parse(text.replace("DIGEST", DIGEST)).dra == expected
    assert parse(text.replace("DIGEST", DIGEST.upper())).dra == expected
    assert parse(written("both", devices="0000:3b:00.0")).dra.devices == ("0000:3b:00.0",)


def test_each_gpu_has_one_owner() -> None:
    first, second = gpu(0), gpu(1)
    for allocation in ("device_plugin", "dra"):
        assert owner(first, Dra(allocation)) == owner(second, Dra(allocation)) == allocation
    for name in ("1", "gpu-1", "0000:02:00.0"):
        both = Dra("both", (name, "7"))
        assert [owner(one, both) for one in (first, second)] == ["device_plugin", "dra"]
        assert unknown((first, second), both) == ["7"]


REFUSED = (
    (written("half"), ("gpuNode.allocation", "half", "device_plugin, dra, both")),
    (written("both"), ("gpuNode.dra.devices is missing", "gpuNode.allocation is both")),
    (written("both", devices=[]), ("gpuNode.dra.devices: [] is not valid", "PCI bus id")),
    (written("both", devices=["MIG-1"]), ("gpuNode.dra.devices", "MIG-1", "UUID")),
    (written("both", devices=["0:1"]), ("gpuNode.dra.devices", "0:1")),
    (written("both", devices=[-1]), ("gpuNode.dra.devices", "-1")),
    (written("both", devices=[True]), ("gpuNode.dra.devices", "True", "UUID")),
    (written(publish="mig"), ("gpuNode.dra.publish", "mig", "all, gpu, share")),
    (written("dra", devices=[0]), ("gpuNode.dra.devices is given", "is dra", "all GPUs")),
    (written(devices=[0]), ("gpuNode.dra.devices is given", "is device_plugin", "no GPU")),
    (written(enforcement="hami"), ("gpuNode.dra.enforcement", "mps, cgroup, hami-core, none")),
    (written(splitCount=0), ("gpuNode.dra.splitCount", "from 1 to 4096")),
    (written(splitCount="ten"), ("gpuNode.dra.splitCount", "ten")),
    (written(memoryScaling=0), ("gpuNode.dra.memoryScaling", "from 0.1 to 100")),
    (written(memoryScaling="2"), ("gpuNode.dra.memoryScaling", "from 0.1 to 100")),
    (written(memoryScaling=True), ("gpuNode.dra.memoryScaling", "from 0.1 to 100")),
    ("gpuNode: {dra: {memoryScaling: .nan}}", ("gpuNode.dra.memoryScaling", "0.1 to 100")),
    ("gpuNode: {dra: {memoryScaling: .inf}}", ("gpuNode.dra.memoryScaling", "0.1 to 100")),
    (written(oversubscribe="yes"), ("gpuNode.dra.oversubscribe", "refuse, best-effort")),
    (written(enforcement="hami-core"), ("gpuNode.dra.hamiCore.library is missing",)),
    (written(hamiCore={"library": "vgpu.so"}), ("hamiCore.library", "an absolute path")),
    (
        written(hamiCore={"library": "/l.so", "sha256": "sha256:1"}),
        ("gpuNode.dra.hamiCore.sha256", "sha256:1", "64 hexadecimal digits"),
    ),
    (
        written(hamiCore={"sha256": DIGEST}),
        ("gpuNode.dra.hamiCore.sha256 is given, and gpuNode.dra.hamiCore.library is not",),
    ),
    (written(splits=4), ("unknown key gpuNode.dra.splits", "splitCount")),
    (
        written("dra", SHARING),
        ("sharing is given, and gpuNode.allocation is dra", "splitCount", "remove sharing"),
    ),
    (
        written("both", SHARING, devices=[0]),
        ("sharing names device 0", "gpuNode.dra.devices names GPU 0", "one of them only"),
    ),
)


def test_an_error_names_its_key_and_the_way_out() -> None:
    cases = ((text, ("config.yaml: line 1", *words)) for text, words in REFUSED)
    assert refused_otherwise(lambda text: parse(text, "config.yaml"), cases, ConfigError) == []


def test_parts_of_a_gpu_of_dra_are_not_shared_either() -> None:
    for reference, device in (("1:0", "1"), (f"MIG-{UUID}/1/0", UUID), (UUID, UUID)):
        entry = {"name": "gpu", "replicas": 2, "devices": [reference]}
        sharing = {"timeSlicing": {"resources": [entry]}}
        with pytest.raises(ConfigError, match="sharing names device"):
            parse(written("both", sharing, devices=[device]))
        assert parse(written("both", sharing, devices=[7])).sharing.shares


def test_more_memory_than_there_is_wants_best_effort() -> None:
    for enforcement in ("mps", "cgroup"):
        more = {"enforcement": enforcement, "memoryScaling": 1.5}
        with pytest.raises(ConfigError) as error:
            parse(written("dra", **more))
        for word in ("gpuNode.dra.memoryScaling is 1.5", "oversubscribe is refuse", "best-effort"):
            assert word in str(error.value), enforcement
        assert (
            parse(written("dra", **more, oversubscribe="best-effort")).dra.memory_scaling == 1.5
        ), enforcement
        less = parse(written("dra", enforcement=enforcement, memoryScaling=0.5)).dra
        assert less.memory_scaling == 0.5, enforcement


def test_what_enforces_nothing_or_swaps_may_promise_more() -> None:
    assert parse(written(enforcement="none", memoryScaling=3)).dra.memory_scaling == 3
    swaps = written(enforcement="hami-core", memoryScaling=3, hamiCore={"library": "/lib.so"})
    assert parse(swaps).dra.memory_scaling == 3
