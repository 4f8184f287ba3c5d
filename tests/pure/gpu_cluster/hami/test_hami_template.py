# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Templates are known by their content."""

from __future__ import annotations

import json

import pytest
from gpu_cluster.hami.mutation import mutate
from gpu_cluster.hami.published import Device, Published
from gpu_cluster.hami.template import name_in
from gpu_plugin._shared._base.dra.names import SHARE

from tests.fakes.cluster.hami_pods import MPS_NODES, SETTINGS, applied, limits, pod


def test_the_same_wish_is_the_same_template() -> None:
    first = pod(limits(gpu=1, gpumem="3k"))
    second = pod(limits(gpu="1", gpumem=3000), {"cpu": 1}, annotations={"a": "b"})
    names = {mutate(one, SETTINGS, MPS_NODES).templates[0].name for one in (first, second)}
    assert len(names) == 1
    other = mutate(pod(limits(gpu=1, gpumem=3001)), SETTINGS, MPS_NODES).templates[0].name
    assert other not in names
    assert (
        applied(second, mutate(second, SETTINGS, MPS_NODES).patch)["metadata"] == second["metadata"]
    )


@pytest.mark.attack("template-of-somebody-else")
def test_a_template_is_known_by_what_we_wrote() -> None:
    """A newer API server may add defaults; another wish, or one more right, is another template."""
    (one,) = mutate(pod(limits(gpu=1, gpumem_percentage=50)), SETTINGS, MPS_NODES).templates
    spec = json.loads(json.dumps(one.spec))
    spec["metadata"] = {}
    (request,) = spec["spec"]["devices"]["requests"]
    request["exactly"]["tolerations"] = []
    assert name_in(spec) == one.name
    request["exactly"]["capacity"]["requests"]["memory"] = "1Mi"
    assert name_in(spec) != one.name
    other = json.loads(json.dumps(one.spec))
    other["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    assert name_in(other) != one.name
    parameters = json.loads(json.dumps(one.spec))
    parameters["spec"]["devices"]["config"][0]["opaque"]["parameters"]["more"] = 1
    assert name_in(parameters) != one.name
    for nothing in (None, [], "x", {}):
        assert name_in(nothing) != one.name


def test_numa_bind_is_a_way_for_each_node() -> None:
    sizes, nodes = (1000, 2000, 3000), range(4)
    rows = [Device(SHARE, size, "x", f"GPU-{n}", "none", 1, n) for size in sizes for n in nodes]
    annotations = {"nvidia.com/numa-bind": "true"}
    half = pod(limits(gpu=2, gpumem_percentage=50), annotations=annotations)
    (one,) = mutate(half, SETTINGS, Published(tuple(rows))).templates
    devices = one.spec["spec"]["devices"]
    ways = devices["requests"][0]["firstAvailable"]
    assert "constraints" not in devices
    assert len(ways) == 8
    assert [way["name"] for way in ways][:3] == [
        "of-1000-numa-0",
        "of-2000-numa-0",
        "of-1000-numa-1",
    ]
    assert ways[2]["selectors"][0]["cel"]["expression"] == (
        '"numaNode" in device.attributes["gpu.node"] && device.attributes["gpu.node"].numaNode == 1'
    )
    single = pod(limits(gpu=1, gpumem=10), annotations=annotations)
    (one,) = mutate(single, SETTINGS, Published(tuple(rows))).templates
    assert "exactly" in one.spec["spec"]["devices"]["requests"][0]
