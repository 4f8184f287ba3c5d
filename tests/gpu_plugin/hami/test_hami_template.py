# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Templates are known by their content."""

from __future__ import annotations

import json

from gpu_plugin.hami.mutation import mutate
from gpu_plugin.hami.template import name_in
from hami_pods import MPS_NODES, SETTINGS, applied, limits, pod


def test_issue_17_3_the_same_wish_is_the_same_template() -> None:
    first = pod(limits(gpu=1, gpumem="3k"))
    second = pod(limits(gpu="1", gpumem=3000), {"cpu": 1}, annotations={"a": "b"})
    names = {mutate(one, SETTINGS, MPS_NODES).templates[0].name for one in (first, second)}
    assert len(names) == 1
    other = mutate(pod(limits(gpu=1, gpumem=3001)), SETTINGS, MPS_NODES).templates[0].name
    assert other not in names
    assert (
        applied(second, mutate(second, SETTINGS, MPS_NODES).patch)["metadata"] == second["metadata"]
    )


def test_issue_17_3_a_template_is_known_by_what_we_wrote() -> None:
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
