# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Results of tasks that have not reached their node are found among a play's variables."""

from __future__ import annotations

from ansible_collections.gpu.node.plugins.lookup.unreached import LookupModule


def test_what_has_not_reached_the_node_is_found_by_the_beginning_of_its_variable() -> None:
    lost = {"unreachable": True, "msg": "no route to host"}
    variables = {
        "__lost": lost,
        "__silent": {"unreachable": True},
        "theirs": lost,
        "__fine": {"rc": 0, "unreachable": False},
        "__text": "unreachable",
    }
    found = LookupModule().run(["__"], variables)
    assert found == ["no route to host", "the node does not answer"]
    assert LookupModule().run(["__fine"], variables) == []
