# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""GPUs that the kubelet has given to pods are in use, though no process has one open."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.debian import VERSION, Debian, converge, converged
from tests.fakes.packages.driver_runs import planned

LOADED = "/proc/driver/nvidia/version"
POD = "pod ml/idle (container main) with nvidia.com/gpu GPU-00000000-aaaa-bbbb-cccc-0123456789ab"


@pytest.fixture
def given_away() -> Debian:
    """Return a node with the driver, where an idle pod was given a GPU."""
    done = converged()
    one = {"namespace": "ml", "pod": "idle", "container": "main", "resource": "nvidia.com/gpu"}
    one["device"] = POD.rpartition(" ")[2]
    done.files["/var/lib/kubelet/pod-resources/kubelet.sock"] = ""
    done.commands[PROGRAM, "pods"] = json.dumps({"version": 1, "allocations": [one]})
    return done


@pytest.mark.parametrize("wanted", [{"version": "535"}, {"state": "absent"}])
def test_idle_pods_keep_their_driver(given_away: Debian, wanted: dict[str, str]) -> None:
    packages = given_away.packages
    for reload in ("never", "when_idle"):
        with pytest.raises(NodeError, match="was not touched") as refused:
            converge(given_away, reload=reload, **wanted)
        assert refused.value.details["blocked_by"] == [POD]
        assert given_away.packages == packages
        assert given_away.changes() == []
        found = planned(given_away, reload=reload, **wanted)
        assert found.blocked_by == (POD,)
        assert any("would be refused" in text and POD in text for text in found.warnings)

    left = converge(given_away, on_allocated="ignore", **wanted)
    assert left.blocked_by == ()
    assert given_away.packages != packages


def test_modules_that_idle_pods_use_are_not_reloaded(given_away: Debian) -> None:
    loaded = given_away.files[LOADED]
    given_away.files[LOADED] = loaded.replace(VERSION.partition("-")[0], "535.261.03")
    left = converge(given_away, reload="when_idle")
    assert f"(not reloaded: pods have been given GPUs: {POD})" in left.reboot_required[0]
    assert left.blocked_by == (POD,)


def test_the_kubelet_is_not_asked_where_nothing_would_be_taken(given_away: Debian) -> None:
    given_away.ran.clear()
    assert converge(given_away).blocked_by == ()
    assert not any(words[0] == PROGRAM for words in given_away.ran)
